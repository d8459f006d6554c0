/**
 * Jobs outlive their senders: BullMQ holds them in Redis, one queue per model, and any BullMQ client may
 * add them. A job is *waiting* (or *delayed*) until an owner of its model takes it under a lock,
 * *running* while that lock is renewed, and *completed* or *failed* once the holder of the lock has said
 * so; with attempts left a failure leads back to delayed or waiting. A lock that runs out frees the job,
 * and what its former holder says of it after that changes nothing (docs/protocol.md R32).
 */

import type { JobBlobs } from '@nereid/protocol';
import type { Queue } from 'bullmq';
import type { JobChanges } from './jobs-changes.ts';
import type { Deliveries } from './jobs-deliveries.ts';
import type { JobKeys } from './jobs-keys.ts';
import type { DeadLetters } from './jobs-letters.ts';
import type { QueueKind } from './jobs-names.ts';
import type { JobPayloads } from './jobs-payloads.ts';
import type { RedisMemory } from './redis-memory.ts';

export type JobState = 'waiting' | 'delayed' | 'running' | 'completed' | 'failed';

/** A job as Redis holds it. Times are wall-clock milliseconds. */
export interface StoredJob {
  readonly model: string;
  /** BullMQ's id, of this queue only. */
  readonly id: string;
  readonly state: JobState;
  /** As its producer gave them. */
  readonly data: unknown;
  /** The return value of a completed job. */
  readonly result: unknown;
  /** As whoever ran it told last; undefined where nobody has. */
  readonly progress: unknown;
  /** Of a failed job. */
  readonly failedReason: string | undefined;
  readonly createdMs: number;
  /** Of the latest attempt. */
  readonly startedMs: number | undefined;
  readonly finishedMs: number | undefined;
  readonly attemptsMade: number;
  readonly attemptsMax: number;
}

/**
 * News of a job. Events' ids rise: `after` one of them, what follows is told, by whichever process.
 *
 * `unknown`: there is no such job. `quiet`: nothing for a while; also the first, where nothing is to be told yet.
 * `present`: how the job is now, where the events before are no longer kept. `state`: it came to that state. `progress`:
 * as whoever runs it tells it. `end`: it is over, as it is now; `job` is undefined where it is deleted with its end.
 */
export type JobNews =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'quiet' }
  | { readonly kind: 'present'; readonly job: StoredJob }
  | { readonly kind: 'state'; readonly event: string; readonly state: JobState; readonly atMs: number }
  | { readonly kind: 'progress'; readonly event: string; readonly progress: unknown }
  | {
      readonly kind: 'end';
      /** Undefined where its event is no longer kept. */
      readonly event: string | undefined;
      readonly job: StoredJob | undefined;
      /** As its event says; undefined where it was removed. */
      readonly state: JobState | undefined;
    };

export interface NewJob {
  /** Chosen by the caller, so that an add whose answer was lost can be repeated. No colon in it, not only digits. */
  readonly id: string;
  /** Wall-clock milliseconds. */
  readonly createdMs: number;
  /** Goes through JSON. */
  readonly data: unknown;
  /** 0 is highest, then 1, 2, … */
  readonly priority: number;
  readonly delayMs: number;
  readonly attempts: number;
  /** The result is kept at least so long. */
  readonly resultTtlS: number;
  /** Payloads that its data name, by their references (`JobPayloads.inputRef`). */
  readonly blobs?: JobBlobs;
}

export interface JobCounts {
  readonly waiting: number;
  readonly delayed: number;
  readonly running: number;
  readonly completed: number;
  readonly failed: number;
}

/** The job that a client's own key stands for. */
export interface KeyedJob {
  readonly id: string;
  /** Of what was asked for with the key. */
  readonly requestHash: string;
  /** It is in its queue, or was. */
  readonly added?: boolean;
}

/** How far a listing has come: within a set of a model's queue, behind its `skip`-th job (of those of that score). */
export interface JobListPlace {
  readonly model: string;
  readonly set: string;
  readonly score: string | undefined;
  readonly skip: number;
}

export interface JobListQuery {
  /** Rising. */
  readonly models: readonly string[];
  readonly states: ReadonlySet<JobState>;
  readonly matches: (job: StoredJob) => boolean;
  readonly limit: number;
  readonly after: JobListPlace | undefined;
}

export interface JobListing {
  /** Without their results. */
  readonly jobs: readonly StoredJob[];
  /** There may be more behind it, also where this page has none. */
  readonly next: JobListPlace | undefined;
}

/** All methods that ask Redis reject with UNAVAILABLE where it does not answer. */
export interface JobQueues {
  /** Of Redis, without user and password. */
  readonly url: string;
  /** What a producer has to name. */
  queue(model: string): { readonly name: string; readonly prefix: string };
  /** Resolves once Redis has the job; an id that it has already is left as it is. */
  add(model: string, job: NewJob): Promise<void>;
  find(model: string, id: string): Promise<StoredJob | undefined>;
  /**
   * The job once it is over, or as it is when the time is up or the signal aborts; undefined where there
   * is none. Rejects with UNAVAILABLE while too many wait.
   */
  wait(model: string, id: string, waitMs: number, signal?: AbortSignal): Promise<StoredJob | undefined>;
  /**
   * As `wait`, for the outcome alone: of a job that ends meanwhile, start and attempts are as they were before, so
   * that nobody reads the job again.
   */
  waitOutcome(model: string, id: string, waitMs: number, signal?: AbortSignal): Promise<StoredJob | undefined>;
  /** A page of the jobs that match, by model, then by state; so many are looked at a page at most. */
  list(query: JobListQuery): Promise<JobListing>;
  /** How many jobs would be taken before it; undefined where it does not wait or that is not known. */
  place(model: string, id: string): Promise<number | undefined>;
  readonly changes: JobChanges;
  readonly keys: JobKeys;
  /**
   * What becomes of a job, from its beginning or after an earlier event, until it is over: see JobNews. Ends at once
   * where there is nothing to tell after that event. Rejects with UNAVAILABLE where Redis does not answer at the
   * beginning, or too many wait; goes on when Redis comes back later.
   */
  follow(model: string, id: string, after: string | undefined, signal: AbortSignal): AsyncIterableIterator<JobNews>;
  /** The rows of the job's log, the newest first; none where there is no such job. */
  notes(model: string, id: string): Promise<readonly string[]>;
  counts(model: string): Promise<JobCounts>;
  /** Begins to take the model's jobs; the taker is to be closed before the queues. */
  take(model: string, options: TakeOptions): JobTaker;
  /** How much of its memory Redis uses, of the server that is fullest; undefined where it has no limit, or hides it. */
  memory(): Promise<RedisMemory | undefined>;
  /** Tensors that jobs only name. */
  readonly payloads: JobPayloads;
  /** Jobs that failed for good, set aside. */
  readonly letters: DeadLetters;
  /** Who is told of the ends of jobs. */
  readonly deliveries: Deliveries;
  /** One of BullMQ's own, for tools that show queues; to be closed by its user, before these. */
  openBullQueue(model: string, kind: QueueKind): Queue;
  /** Closes all connections and takes every waiter out. Idempotent. */
  close(): Promise<void>;
  /** Callers of `wait` now. */
  readonly waiters: number;
}

export interface TakeOptions {
  /** Whoever takes, told in the job. */
  readonly by: string;
  /** The lock's token: owner and epoch. */
  readonly token: () => string;
  /** How many more jobs would be taken now. */
  readonly room: () => number;
  /** A job is here. False gives it back. */
  readonly taken: (job: TakenJob) => boolean;
  /** Its lock was lost: another may run it, and its outcome is no longer wanted here. */
  readonly lost: (id: string) => void;
}

export interface TakenJob {
  readonly id: string;
  readonly data: unknown;
  readonly createdMs: number;
  /** How often it was taken, by whomever, this time too. */
  readonly starts: number;
  /** Why it is to fail without being run, as BullMQ has it: a child of it has failed. */
  readonly deferredFailure?: string | undefined;
  /** Of the payloads that its data name, those that are there. */
  readonly blobs?: JobBlobs;
}

/** Payloads that a result names, and for how long they are to be there. */
export interface ResultPayloads {
  readonly blobs: JobBlobs;
  readonly ttlS: number;
}

/**
 * Holds taken jobs and renews their locks. Each job is to be ended by one of `complete`, `fail` and
 * `putBack`; each is repeated until Redis has answered, and does nothing for a job that is not held (any
 * more). They resolve once the job is off our hands. A `note` is put into the job's log, which is deleted with the job.
 */
export interface JobTaker {
  readonly held: number;
  /** There may be room again. */
  more(): void;
  /**
   * Tells how far a job has come: in the order of the calls, and before its end. `bytes` is about what the value takes.
   * False, and nothing is told, where too much waits for Redis.
   */
  progress(id: string, value: unknown, bytes: number): boolean;
  complete(id: string, result: unknown, note?: string, beside?: ResultPayloads): Promise<void>;
  /** `retry`: as the job's attempts and backoff say; else it has failed for good. */
  fail(id: string, reason: string, retry: boolean, note?: string): Promise<void>;
  /** Back to the queue without counting as an attempt, after that time. */
  putBack(id: string, delayMs: number): Promise<void>;
  /** Takes no more, lets what is being ended end, puts the rest back. Idempotent. */
  close(): Promise<void>;
}
