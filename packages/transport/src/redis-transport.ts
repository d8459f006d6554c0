import { encodeMessage, type Message, NereidError, type ProcessId } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { createInterruptions } from './interruptions.ts';
import type { Mailbox, MailboxLimits, RefusalReason, Transport } from './mailbox.ts';
import type { NextTurn } from './next-turn.ts';
import type { RedisConnector } from './redis-connection.ts';
import { type Inbox, openInbox } from './redis-inbox.ts';
import { redisKeys } from './redis-keys.ts';
import { createOutbox } from './redis-outbox.ts';
import { mailboxScripts } from './redis-scripts.ts';
import { settledWithin } from './settled-within.ts';
import type { Timing } from './timing.ts';

/**
 * A mailbox without a heartbeat for so many registrations is gone, with what it holds: Redis deletes it by itself, so
 * that nobody has to look for mailboxes of the dead (docs/protocol.md R36).
 */
const MAILBOX_TTL_REGISTRATIONS = 3;
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
  /** `setImmediate` by default; simulations have turns of their own. */
  readonly nextTurn?: NextTurn;
}

export interface RedisTransport extends Transport {
  /** Resolves once Redis knows each mailbox opened here: only then should others hear of the process. */
  opened(): Promise<void>;
}

/**
 * Mailboxes in Redis: a list per mailbox and a marker that it is open. Two mailboxes of one process, too, meet only
 * there. A send encodes at once; what gathers for one receiver within a turn is one script call (redis-outbox.ts), and a
 * reader takes whatever waits by one blocking pop (redis-inbox.ts).
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
  let closed = false;

  const send = (to: ProcessId, message: Message, refused: ((reason: RefusalReason) => void) | undefined) => {
    let frame: Uint8Array;
    try {
      frame = encodeMessage(message);
    } catch (error) {
      log.error({ err: error, model: message.model }, `a message of kind ${message.kind} cannot be encoded`);
      if (refused !== undefined) queueMicrotask(() => refused('full'));
      return;
    }
    outbox.send(to, frame, refused);
  };

  return {
    open(id, receive): Mailbox {
      if (closed) throw new NereidError('INTERNAL', `mailbox ${id}: the transport is closed`);
      if (inboxes.has(id)) throw new NereidError('INTERNAL', `mailbox ${id} is open already`);
      const inbox = openInbox({
        id,
        receive,
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
    onInterruption: (listener) => interruptions.watch(listener),
    async close() {
      closed = true;
      await settledWithin(CLOSE_MS_MAX, outbox.idle());
      await Promise.all([...inboxes.values()].map((inbox) => inbox.close()));
      inboxes.clear();
      outbox.close();
    },
  };
}
