import { type Clock, type Log, settledWithin, type Timer } from '@nereid/runtime';
import { QueueEvents } from 'bullmq';
import type { RedisClient } from './redis-connection.ts';

export interface JobEventsParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Copied for the listener's own connection. */
  readonly client: RedisClient;
  readonly queue: { readonly name: string; readonly prefix: string };
  /** Nobody has listened for a while: the events are closed. */
  readonly idle: () => void;
}

/** How a job ended, as its event tells it. */
export type JobEnd = { readonly atMs: number } & (
  | { readonly state: 'completed'; readonly result: unknown }
  | { readonly state: 'failed'; readonly failedReason: string }
);

/** The events of one queue: one connection, however many wait. */
export interface JobEvents {
  /**
   * Calls back at each end of that job from now on, with undefined where the job itself has to be asked. Returns how
   * to stop.
   */
  listen(id: string, ended: (end: JobEnd | undefined) => void): () => void;
  /** Calls back with the id of each event of that job that may tell something new. Returns how to stop. */
  follow(id: string, heard: (event: string) => void): () => void;
  close(): Promise<void>;
}

/** Of BullMQ's events those that change what can be told of a job. */
const NEWS = ['waiting', 'delayed', 'active', 'progress', 'completed', 'failed', 'removed'] as const;
/** A queue's connection is kept so long after its last waiter. */
const LINGER_MS = 10_000;
/** Below what counts as a dead connection, see redis-connection.ts. */
const BLOCK_MS = 5_000;
/** Clocks of the nodes of a Cluster may differ by so much. */
const CLOCK_SLACK_MS = 1_000;
/** BullMQ waits for ever for a connection that is not there to end. */
const CLOSE_MS_MAX = 1_000;

/**
 * Opens a queue's events. What ends after this call began is told, however late the connection is up:
 * it reads from the present time of Redis on, not from its first read.
 */
export async function openJobEvents(parts: JobEventsParts): Promise<JobEvents> {
  const { clock, log, client, queue } = parts;
  const listeners = createById<JobEnd | undefined>();
  const followers = createById<string>();
  let linger: Timer | undefined;
  let closing: Promise<void> | undefined;

  const [seconds, microseconds] = await client.time();
  const openedMs = Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
  const events = new QueueEvents(queue.name, {
    connection: client,
    prefix: queue.prefix,
    lastEventId: `${openedMs - CLOCK_SLACK_MS}-0`,
    blockingTimeout: BLOCK_MS,
  });

  const tell = listeners.tell;
  /** One from before the opening may be of an earlier run of the job. */
  const isNew = (atMs: number) => atMs >= openedMs;
  events.on('completed', ({ jobId, returnvalue }, event) => {
    const atMs = eventMs(event);
    tell(jobId, isNew(atMs) ? { state: 'completed', result: returnvalue, atMs } : undefined);
  });
  events.on('failed', ({ jobId, failedReason }, event) => {
    const atMs = eventMs(event);
    tell(jobId, isNew(atMs) ? { state: 'failed', failedReason, atMs } : undefined);
  });
  events.on('removed', ({ jobId }) => tell(jobId, undefined));
  for (const name of NEWS) {
    events.on(name, ({ jobId }: { readonly jobId: string }, event: string) => followers.tell(jobId, event));
  }
  events.on('error', (error) => log.debug({ err: error, queue: queue.name }, 'events of a job queue'));

  const lingerOn = () => {
    linger = clock.at(clock.nowUs() + LINGER_MS * 1000, parts.idle);
  };

  lingerOn();

  const shutDown = async () => {
    linger?.cancel();
    const closed = events.close().catch((error) => log.debug({ err: error }, 'events of a job queue not closed'));
    await settledWithin(closed, CLOSE_MS_MAX, clock);
  };

  /** Those who listen keep the connection. */
  const lasting = (stop: () => void) => {
    linger?.cancel();
    linger = undefined;
    return () => {
      stop();
      if (listeners.size === 0 && followers.size === 0 && closing === undefined && linger === undefined) lingerOn();
    };
  };

  return {
    listen: (id, ended) => lasting(listeners.add(id, ended)),
    follow: (id, heard) => lasting(followers.add(id, heard)),
    close() {
      closing ??= shutDown();
      return closing;
    },
  };
}

interface ById<T> {
  add(id: string, call: (value: T) => void): () => void;
  tell(id: string, value: T): void;
  readonly size: number;
}

/** Callbacks by job. */
function createById<T>(): ById<T> {
  const calls = new Map<string, Set<(value: T) => void>>();
  return {
    add(id, call) {
      const own = (value: T) => call(value);
      const known = calls.get(id);
      if (known === undefined) calls.set(id, new Set([own]));
      else known.add(own);
      return () => {
        const all = calls.get(id);
        all?.delete(own);
        if (all?.size === 0) calls.delete(id);
      };
    },
    tell(id, value) {
      for (const call of calls.get(id) ?? []) call(value);
    },
    get size() {
      return calls.size;
    },
  };
}

/** An event's id begins with Redis' time, in milliseconds. */
export function eventMs(event: string): number {
  return Number(event.slice(0, event.indexOf('-')));
}
