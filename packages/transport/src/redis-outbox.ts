import type { ProcessId } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Stored } from './blob-redis.ts';
import type { Interruptions } from './interruptions.ts';
import type { RefusalReason } from './mailbox.ts';
import { FRAME_LENGTH_BYTES, packParcels } from './mailbox-parcel.ts';
import type { NextTurn } from './next-turn.ts';
import { isOutOfMemory, isRefusal, REDIS_VALUE_BYTES_MAX, type RedisConnection } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';
import { type MailboxScripts, PUSH_GONE } from './redis-scripts.ts';

/** What one script call carries at most; below the 8,000 values that Lua can spread into one call, were each refused or taken alone. */
const PUSH_MESSAGES_MAX = 1_000;
/** A larger single frame still goes, alone. Bounds how long one call holds up the whole Redis. */
const PUSH_BYTES_MAX = 4_194_304;
/** What waits in this process to be pushed, to all receivers; beyond it a send is refused as 'full'. */
const WAITING_MESSAGES_MAX = 131_072;
const WAITING_BYTES_MAX = 268_435_456;
/** Alone in its parcel. */
const FRAME_BYTES_MAX = REDIS_VALUE_BYTES_MAX - FRAME_LENGTH_BYTES;
/**
 * What waited longer than this for Redis to come back is dropped unsaid: its sender's protocol has sent it again or
 * given it up by then, and its epoch is most likely over.
 */
const HELD_MS_MAX = 2_000;

interface Outgoing {
  readonly frame: Uint8Array;
  readonly refused: ((reason: RefusalReason) => void) | undefined;
  readonly sentUs: number;
  /** Its tensors are on their way to Redis; undefined where nothing is waited for. */
  stored: Promise<Stored> | undefined;
}

interface OutboxParts {
  readonly connection: RedisConnection;
  readonly scripts: MailboxScripts;
  readonly keys: RedisKeys;
  readonly listTtlMs: number;
  /** For so long after a lost connection no mailbox counts as gone: a Redis that began anew knows none. */
  readonly graceMs: number;
  readonly clock: Clock;
  readonly nextTurn: NextTurn;
  readonly log: Log;
  readonly interruptions: Interruptions;
  /** Waits while the receiver is a mailbox of this process that is not open in Redis yet. */
  readonly opening: (to: ProcessId) => Promise<void> | undefined;
}

export interface Outbox {
  /** `stored`: the frame waits for it, as does what is sent to the same receiver later, and goes only if all is stored. */
  send(
    to: ProcessId,
    frame: Uint8Array,
    refused: ((reason: RefusalReason) => void) | undefined,
    stored?: Promise<Stored>,
  ): void;
  /** Resolves when nothing waits. */
  idle(): Promise<void>;
  /** Drops what waits. */
  close(): void;
}

/**
 * What waits to be pushed, per receiver. A lane is *absent* while nothing is to be sent; the first send makes it, and
 * once this turn of the event loop has handled what came it *runs*: takes what has gathered, pushes it by one script
 * call, waits for the answer, and so on until nothing is left. So there is one push under way per receiver, which keeps
 * the order even where Redis asks for the script's text or a Cluster redirects, and under load the pushes grow instead
 * of becoming more.
 * A push whose answer was lost may have happened: it is never repeated.
 */
export function createOutbox(parts: OutboxParts): Outbox {
  const { connection, scripts, keys, clock, log, interruptions } = parts;
  const lanes = new Map<ProcessId, Outgoing[]>();
  /** Lanes made in this turn. */
  let begun: [to: ProcessId, lane: Outgoing[]][] = [];
  let waitingMessages = 0;
  let waitingBytes = 0;
  let goneBelievedFromUs = 0;
  let idleWaits: (() => void)[] = [];

  const forget = (messages: readonly Outgoing[]) => {
    for (const { frame } of messages) {
      waitingMessages--;
      waitingBytes -= frame.byteLength;
    }
  };

  const broke = () => {
    interruptions.broke(connection);
    goneBelievedFromUs = clock.nowUs() + parts.graceMs * 1_000;
  };

  // In a turn of its own: what the callback throws is not the connection's.
  const refuse = (outgoing: Pick<Outgoing, 'refused'> | undefined, reason: RefusalReason) => {
    if (outgoing?.refused !== undefined) queueMicrotask(() => outgoing.refused?.(reason));
  };

  const push = async (to: ProcessId, batch: readonly Outgoing[]) => {
    const goneBelieved = clock.nowUs() >= goneBelievedFromUs;
    try {
      const parcels = packParcels(batch.map(({ frame }) => frame));
      const answer = await scripts.push([keys.mailbox(to), keys.mailboxOpen(to)], [parts.listTtlMs, ...parcels]);
      interruptions.works(connection);
      if (answer === PUSH_GONE) {
        if (goneBelieved) for (const outgoing of batch) refuse(outgoing, 'gone');
      } else {
        for (const position of answer as readonly number[]) refuse(batch[position - 1], 'full');
      }
    } catch (error) {
      if (!isRefusal(error)) {
        broke();
      } else if (isOutOfMemory(error)) {
        for (const outgoing of batch) refuse(outgoing, 'full');
      } else {
        log.error({ err: error }, `Redis refused ${batch.length} messages, which are dropped`);
      }
    }
  };

  const run = async (to: ProcessId, lane: Outgoing[]) => {
    while (lane.length > 0) {
      const opening = parts.opening(to);
      if (opening !== undefined || !connection.isReady) {
        await opening;
        await connection.ready();
        forget(dropOld(lane, clock.nowUs()));
        // Either may have changed while the other was waited for.
        continue;
      }
      const [first] = lane;
      if (first?.stored !== undefined) {
        const stored = await first.stored;
        first.stored = undefined;
        if (stored !== 'stored') {
          forget(lane.splice(0, 1));
          if (stored === 'full') refuse(first, 'full');
        }
        continue;
      }
      const batch = takeBatch(lane);
      await push(to, batch);
      forget(batch);
    }
    // In the same turn as the look at its length, else what comes in between would stay.
    lanes.delete(to);
  };

  const start = async (to: ProcessId, lane: Outgoing[]) => {
    try {
      await run(to, lane);
    } catch {
      // The connection was closed for good, and nobody waits for what is left.
      forget(lane);
      lanes.delete(to);
    }
    if (lanes.size > 0) return;
    for (const resolve of idleWaits) resolve();
    idleWaits = [];
  };

  const startBegun = () => {
    const starting = begun;
    begun = [];
    for (const [to, lane] of starting) void start(to, lane);
  };

  connection.watch((event) => {
    if (event === 'lost') broke();
    else interruptions.works(connection);
  });

  return {
    send(to, frame, refused, stored) {
      const bytes = frame.byteLength;
      const overBytes = waitingBytes + bytes > WAITING_BYTES_MAX && waitingMessages > 0;
      if (bytes > FRAME_BYTES_MAX || waitingMessages >= WAITING_MESSAGES_MAX || overBytes) {
        refuse({ refused }, 'full');
        return;
      }
      waitingMessages++;
      waitingBytes += bytes;
      const outgoing = { frame, refused, sentUs: clock.nowUs(), stored };
      const lane = lanes.get(to);
      if (lane !== undefined) {
        lane.push(outgoing);
        return;
      }
      const made = [outgoing];
      lanes.set(to, made);
      if (begun.push([to, made]) === 1) parts.nextTurn(startBegun);
    },
    idle() {
      return lanes.size === 0 ? Promise.resolve() : new Promise((resolve) => idleWaits.push(resolve));
    },
    close: () => connection.close(),
  };
}

/** Takes from the front what one call carries. */
function takeBatch(lane: Outgoing[]): Outgoing[] {
  let count = 0;
  let bytes = 0;
  for (const { frame, stored } of lane) {
    if (stored !== undefined) break;
    bytes += frame.byteLength;
    if (count === PUSH_MESSAGES_MAX || (count > 0 && bytes > PUSH_BYTES_MAX)) break;
    count++;
  }
  return lane.splice(0, count);
}

/** Takes from the front what is too old. */
function dropOld(lane: Outgoing[], nowUs: number): Outgoing[] {
  const fresh = lane.findIndex(({ sentUs }) => nowUs - sentUs <= HELD_MS_MAX * 1_000);
  return lane.splice(0, fresh < 0 ? lane.length : fresh);
}
