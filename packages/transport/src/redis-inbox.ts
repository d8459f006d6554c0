import { decodeMessage, type Message, type ProcessId } from '@nereid/protocol';
import { type Clock, type Log, pause, settledWithin, type Timer } from '@nereid/runtime';
import type { Collector } from './blob-collector.ts';
import type { Interruptions } from './interruptions.ts';
import type { MailboxLimits } from './mailbox.ts';
import { readParcel } from './mailbox-parcel.ts';
import type { NextTurn } from './next-turn.ts';
import { BLOCKING_S_MAX, isRefusal, type RedisConnection } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';
import { type MailboxScripts, mailboxScripts } from './redis-scripts.ts';

/** What one pop takes at most: parcels of 64 frames each. */
const POP_PARCELS_MAX = 16;
/** About what one pop should take: the next takes as many parcels of the last one's mean size. */
const POP_BYTES_GOAL = 4_194_304;
/** How long a close waits for each answer of Redis. */
const CLOSE_MS_MAX = 1_000;
/** After Redis refused the pop itself, e.g. for want of a permission. */
const REFUSED_PAUSE_MS = 500;
const NODE_AWAY_PAUSE_MS = 50;

interface InboxParts {
  readonly id: ProcessId;
  /** Resolves once the messages are handed on, before which nothing more is read. */
  readonly receive: Collector;
  /** Blocks in the pop, and nothing else is sent on it. */
  readonly popping: RedisConnection;
  /** Shared with all else that the transport sends. */
  readonly commands: RedisConnection;
  readonly scripts: MailboxScripts;
  readonly keys: RedisKeys;
  readonly limits: MailboxLimits;
  readonly ttlMs: number;
  readonly heartbeatMs: number;
  readonly clock: Clock;
  readonly nextTurn: NextTurn;
  readonly log: Log;
  readonly interruptions: Interruptions;
}

export interface Inbox {
  readonly closed: boolean;
  /** Set while the mailbox is not open in Redis, as far as is known here; resolves when it is, or is closed. */
  readonly opening: Promise<void> | undefined;
  close(): Promise<void>;
}

/**
 * The reading side of one mailbox. It is *opening* until Redis has its open-marker, then *reading*, by one blocking pop
 * after the other; a lost connection leads back to *opening*; *closed* is final. The marker is renewed by the heartbeat
 * on the other connection. A mailbox whose marker was gone, or whose Redis began anew, starts empty: Redis might hold
 * what was read already, and each message arrives at most once.
 */
export function openInbox(parts: InboxParts): Inbox {
  const { id, popping, commands, keys, clock, log, interruptions } = parts;
  const list = keys.mailbox(id);
  const marker = keys.mailboxOpen(id);
  const onPopping = mailboxScripts(popping.client);
  let closed = false;
  let runId: string | undefined;
  let openedBefore = false;
  let isOpen: () => void = () => {};
  let opening: Promise<void> | undefined;
  let popParcels = POP_PARCELS_MAX;
  let openCall: Promise<void> = Promise.resolve();
  let heartbeat: Timer | undefined;

  const unopen = () => {
    opening ??= new Promise((resolve) => {
      isOpen = resolve;
    });
  };
  const opened = () => {
    opening = undefined;
    isOpen();
  };
  const openArguments = (anew: boolean) => [
    parts.ttlMs,
    parts.limits.messages_max,
    parts.limits.bytes_max,
    anew ? '1' : '0',
  ];

  const open = async () => {
    await popping.ready();
    const anew = openedBefore && popping.runId !== runId;
    // Closed while it dialled: nothing may be opened any more.
    if (closed) return;
    await onPopping.open([list, marker], openArguments(anew));
    runId = popping.runId;
    openedBefore = true;
    opened();
    // The heartbeat renews on it, also before the first message is sent; where it fails it is dialled again.
    commands.ready().catch(() => {});
    interruptions.works(popping);
  };

  const decode = (frame: Buffer, messages: Message[]) => {
    try {
      messages.push(decodeMessage(frame));
    } catch (error) {
      log.error({ err: error }, `mailbox ${id}: a message that cannot be read is dropped`);
    }
  };

  const deliver = (parcels: readonly Buffer[]) => {
    const messages: Message[] = [];
    let bytes = 0;
    for (const parcel of parcels) {
      bytes += parcel.byteLength;
      const { frames, whole } = readParcel(parcel);
      for (const frame of frames) decode(frame, messages);
      if (!whole) log.error(`mailbox ${id}: what follows ${frames.length} messages cannot be read and is dropped`);
    }
    popParcels = Math.min(POP_PARCELS_MAX, Math.max(1, Math.floor((POP_BYTES_GOAL * parcels.length) / bytes)));
    return messages.length > 0 ? parts.receive(messages) : undefined;
  };

  const read = async () => {
    while (!closed) {
      const reply = await popping.client.blmpopBuffer(BLOCKING_S_MAX, 1, list, 'LEFT', 'COUNT', popParcels);
      if (reply !== null && !closed) {
        const handedOn = deliver(reply[1]);
        if (handedOn !== undefined) await handedOn;
        // First what these lead to, then the next: under load more has gathered by then, and one pop takes it.
        await new Promise<void>((resolve) => parts.nextTurn(resolve));
      }
    }
  };

  const run = async () => {
    while (!closed) {
      try {
        openCall = open();
        await openCall;
        await read();
      } catch (error) {
        if (closed) return;
        unopen();
        if (openedBefore) interruptions.broke(popping);
        if (isRefusal(error)) {
          log.error({ err: error }, `mailbox ${id}: Redis refuses to be read`);
          await pause(clock, REFUSED_PAUSE_MS);
        } else {
          log.warn(`mailbox ${id}: the connection to Redis was lost`);
          // A Cluster's client counts as ready while one of its nodes is away.
          if (popping.isReady) await pause(clock, NODE_AWAY_PAUSE_MS);
        }
      }
    }
  };

  const beat = async () => {
    if (opening === undefined && commands.isReady) {
      try {
        const was = await parts.scripts.open([list, marker], openArguments(false));
        interruptions.works(commands);
        if (was === 0 && !closed) interruptions.lost();
      } catch (error) {
        if (!isRefusal(error)) interruptions.broke(commands);
      }
    }
    if (!closed) heartbeat = clock.at(clock.nowUs() + parts.heartbeatMs * 1_000, () => void beat());
  };

  const remove = async () => {
    await commands.ready();
    await commands.client.del(list, marker);
  };

  unopen();
  void run();
  heartbeat = clock.at(clock.nowUs() + parts.heartbeatMs * 1_000, () => void beat());

  return {
    get closed() {
      return closed;
    },
    get opening() {
      return opening;
    },
    async close() {
      if (closed) return;
      closed = true;
      heartbeat?.cancel();
      // An open under way must be over first, else it comes after the deletion; renewals go by the same connection.
      if (popping.isReady) await settledWithin(openCall, CLOSE_MS_MAX, clock);
      popping.close();
      opened();
      // Without Redis the TTL does it.
      await settledWithin(remove(), CLOSE_MS_MAX, clock);
    },
  };
}
