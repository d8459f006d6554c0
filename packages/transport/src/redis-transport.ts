import { encodeMessage, type Message, NereidError, type ProcessId } from '@nereid/protocol';
import { type Clock, type Log, settledWithin } from '@nereid/runtime';
import { type Collector, createCollector } from './blob-collector.ts';
import { createRedisBlobs } from './blob-redis.ts';
import { type BlobOptions, createBlobStore } from './blob-store.ts';
import { createInterruptions } from './interruptions.ts';
import type { LargeTensors, Mailbox, MailboxLimits, MailboxOptions, RefusalReason, Transport } from './mailbox.ts';
import type { NextTurn } from './next-turn.ts';
import type { RedisConnector } from './redis-connection.ts';
import { type Inbox, openInbox } from './redis-inbox.ts';
import { redisKeys } from './redis-keys.ts';
import { createOutbox } from './redis-outbox.ts';
import { mailboxScripts } from './redis-scripts.ts';
import type { Timing } from './timing.ts';

/**
 * A mailbox without a heartbeat for so many registrations is gone, with what it holds: Redis deletes it by itself, so
 * that nobody has to look for mailboxes of the dead (docs/protocol.md R36).
 */
const MAILBOX_TTL_REGISTRATIONS = 3;
/** As long as the mailboxes that name them. */
const BLOB_TTL_REGISTRATIONS = MAILBOX_TTL_REGISTRATIONS;
/** How long a close waits for what was sent before. */
const CLOSE_MS_MAX = 1_000;

export interface RedisTransportOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  /** Of the mailboxes opened here; each mailbox keeps its own in Redis. */
  readonly limits: MailboxLimits;
  readonly log: Log;
  readonly clock: Clock;
  readonly timing: Timing;
  readonly blobs: BlobOptions;
  /** `setImmediate` by default; simulations have turns of their own. */
  readonly nextTurn?: NextTurn;
}

export interface RedisTransport extends Transport {
  readonly largeTensors: LargeTensors;
  /** Of what was put down here for others and is not known to be gone. */
  readonly blobBytes: number;
  /** What hands messages to that process on once their data are here, for those that come by another lane. */
  collector(id: ProcessId, receive: (messages: readonly Message[]) => void, options?: MailboxOptions): Collector;
  /** Resolves once Redis knows each mailbox opened here: only then should others hear of the process. */
  opened(): Promise<void>;
}

/**
 * Mailboxes in Redis: a list per mailbox and a marker that it is open. Two mailboxes of one process, too, meet only
 * there. A send encodes at once; what gathers for one receiver within a turn is one script call (redis-outbox.ts), and a
 * reader takes whatever waits by one blocking pop (redis-inbox.ts).
 *
 * Large tensors go beside the frames, as blobs (blob-store.ts), and are fetched before whoever reads them gets the
 * message (blob-collector.ts).
 *
 * While Redis is away up to WAITING_MESSAGES_MAX messages wait for it; those that waited too long are dropped, since
 * their senders repeat what matters. A message that cannot be encoded is refused as 'full' and logged.
 */
export function createRedisTransport(options: RedisTransportOptions): RedisTransport {
  const { connector, limits, log, clock, timing, nextTurn = setImmediate } = options;
  const keys = redisKeys(options.prefix);
  const ttlMs = Math.ceil(MAILBOX_TTL_REGISTRATIONS * timing.registration_ms);
  const interruptions = createInterruptions();
  const inboxes = new Map<ProcessId, Inbox>();
  const commands = connector.connect('push');
  const scripts = mailboxScripts(commands.client);
  const outbox = createOutbox({
    connection: commands,
    scripts,
    keys,
    listTtlMs: ttlMs,
    graceMs: Math.max(timing.lease_ms, timing.worker_registration_ms),
    clock,
    nextTurn,
    log,
    interruptions,
    opening: (to) => inboxes.get(to)?.opening,
  });
  const blobs = createBlobStore({
    ...options.blobs,
    redis: createRedisBlobs(connector.connect('blobs'), keys, clock),
    ttlMs: Math.ceil(BLOB_TTL_REGISTRATIONS * timing.registration_ms),
    clock,
    isHere: (id) => inboxes.has(id),
  });
  let closed = false;

  const send = (to: ProcessId, message: Message, refused: ((reason: RefusalReason) => void) | undefined) => {
    const detached = blobs.detach(to, message);
    if (detached === 'full') {
      if (refused !== undefined) queueMicrotask(() => refused('full'));
      return;
    }
    let frame: Uint8Array;
    try {
      frame = encodeMessage(message, detached === undefined ? undefined : (tensor) => detached.refs.get(tensor));
    } catch (error) {
      detached?.undo();
      const model = 'model' in message ? message.model : undefined;
      log.error({ err: error, model }, `a message of kind ${message.kind} cannot be encoded`);
      if (refused !== undefined) queueMicrotask(() => refused('full'));
      return;
    }
    if (detached === undefined) {
      outbox.send(to, frame, refused);
      return;
    }
    const undone = (reason: RefusalReason) => {
      detached.undo();
      refused?.(reason);
    };
    outbox.send(to, frame, undone, detached.stored);
  };

  return {
    open(id, receive, options): Mailbox {
      if (closed) throw new NereidError('INTERNAL', `mailbox ${id}: the transport is closed`);
      if (inboxes.has(id)) throw new NereidError('INTERNAL', `mailbox ${id} is open already`);
      const inbox = openInbox({
        id,
        // In a turn of its own: what the receiver throws is not the connection's.
        receive: createCollector(
          id,
          blobs,
          (messages) => queueMicrotask(() => inbox.closed || receive(messages)),
          options,
        ),
        popping: connector.connect(`pop:${id}`),
        commands,
        scripts,
        keys,
        limits,
        ttlMs,
        heartbeatMs: timing.heartbeat_ms,
        clock,
        nextTurn,
        log,
        interruptions,
      });
      inboxes.set(id, inbox);
      return {
        id,
        send(to, message, refused) {
          if (!inbox.closed) send(to, message, refused);
          else if (refused !== undefined) queueMicrotask(() => refused('gone'));
        },
        async close() {
          await inbox.close();
          if (inboxes.get(id) === inbox) inboxes.delete(id);
        },
      };
    },
    async opened() {
      await Promise.all([...inboxes.values()].map((inbox) => inbox.opening));
    },
    get blobBytes() {
      return blobs.bytes;
    },
    largeTensors: blobs,
    collector: (id, receive, options) => createCollector(id, blobs, receive, options),
    onInterruption: (listener) => interruptions.watch(listener),
    async close() {
      closed = true;
      await settledWithin(outbox.idle(), CLOSE_MS_MAX, clock);
      await Promise.all([...inboxes.values()].map((inbox) => inbox.close()));
      inboxes.clear();
      blobs.close();
      outbox.close();
    },
  };
}
