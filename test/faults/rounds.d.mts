import type { Ending } from '../command.mjs';

export type FaultName = 'kill' | 'pause' | 'redis' | 'redis-restart' | 'redis-kill' | 'failover';
export type Victim = 'worker' | 'coordinator' | 'gateway' | 'redis';

/** A request that has ended: `right`, `wrong`, `refused` (503) or `broken` (no answer). */
export interface EndedRequest {
  /** Of its gateway. */
  readonly place: number;
  readonly sentMs: number;
  readonly endedMs: number;
  readonly outcome: 'right' | 'wrong' | 'refused' | 'broken';
  /** The worker's, where right. */
  readonly pid?: number;
  /** What came, where not right. */
  readonly text?: string;
  /** The header, where refused. */
  readonly retryAfter?: string | null;
}

/** A job that was accepted, as its producer saw it end. */
export interface EndedJob {
  readonly by: 'http' | 'producer' | 'python';
  /** Who sent what, in words. */
  readonly kind: string;
  readonly model: string;
  /** BullMQ's. */
  readonly id: string;
  /** What its answer follows from; of a step how many there were and their sum. */
  readonly value: number | readonly [count: number, sum: number];
  readonly sentMs: number;
  readonly endedMs: number;
  readonly outcome: 'right' | 'wrong' | 'lost';
  readonly pid?: number | undefined;
  readonly text?: string;
}

/** A step as a job. */
export interface EndedStep extends EndedJob {
  readonly sequence: string;
  readonly index: number;
}

export interface EndedSequence {
  readonly id: number | string;
  readonly begunMs: number;
  readonly endedMs: number;
  readonly steps: number;
  /** Of the process that had it, once that has answered. */
  readonly pid: number | undefined;
  readonly outcome: 'right' | 'lost' | 'wrong' | 'refused' | 'broken';
  readonly text?: string;
}

/** What became of accepted jobs. */
export interface JobCounts {
  readonly accepted: number;
  readonly completed: number;
  /** Failed, with the worker that had their sequence. */
  readonly lost: number;
  /** By code, without those. */
  readonly failed: Readonly<Record<string, number>>;
  readonly wrong: number;
  readonly doubled: number;
  readonly missing: number;
}

export interface Fault {
  readonly round: number;
  readonly kind: 'kill' | 'pause' | 'restart' | 'outage' | 'failover';
  readonly role: Victim;
  readonly place: number;
  /** Of the process that was killed. */
  readonly deadPid?: number;
  /** When it began, when all ran again, and when its time was over. */
  readonly atMs: number;
  readonly mendedMs: number;
  readonly endMs: number;
  /** The longest time without a right answer. */
  readonly gapMs: number;
  /** The longest wait for a right answer. */
  readonly slowestMs: number;
  /** From the start of a new worker to its first answer. */
  readonly joinMs: number | undefined;
  /** Until each gateway had given a right answer again and each process said that it is ready, once all ran again. */
  readonly healthyMs: number;
  /** Of a pause: messages that each role refused since. */
  readonly stale: Readonly<Record<'worker' | 'coordinator' | 'gateway', number>> | undefined;
  readonly right: number;
  readonly wrong: number;
  readonly refused: number;
  readonly broken: number;
}

export interface RoundsResult {
  readonly faults: readonly Fault[];
  /** Requests, and submissions of jobs that were not accepted. */
  readonly requests: readonly EndedRequest[];
  readonly jobs: readonly EndedJob[];
  /** Jobs that Redis held in the end, each with its result. */
  readonly kept: number;
  /** What became of accepted jobs, by their kind. */
  readonly jobCounts: Readonly<Record<string, JobCounts>>;
  readonly jobProblems: readonly string[];
  /** Problems that the death of a Redis may bring. */
  readonly excusedJobs: readonly string[];
  /** Sequences of waiting requests that have ended. */
  readonly sequences: readonly EndedSequence[];
  readonly sequenceProblems: readonly string[];
  /** Of workers that were cut off for longer than their registration lasts. */
  readonly lapsed: readonly number[];
  readonly producerCodes: readonly (number | null)[];
  /** What roles held once all was answered. */
  readonly held: readonly string[];
  /** What was left of the dead while the others ran, and of all once they had stopped. */
  readonly left: readonly string[];
  readonly leftAtEnd: readonly string[];
  readonly endings: readonly Ending[];
}

export declare const FAULTS: Readonly<Record<FaultName, readonly Pick<Fault, 'kind' | 'role'>[]>>;
export declare function runRounds(options: {
  /** The faults of each round. */
  readonly plan: readonly (readonly FaultName[])[];
  /** `single` without it. */
  readonly form?: 'single' | 'cluster' | 'sentinel';
  readonly timeScale?: number;
  /** Of each round, at least. */
  readonly roundMs?: number;
  /** `everysec` without it. */
  readonly fsync?: 'everysec' | 'always';
  /** With sequences, as requests and as jobs. */
  readonly mixed?: boolean;
  /** Half of the clients. */
  readonly light?: boolean;
  /** With a producer in that Python. */
  readonly python?: string | undefined;
  readonly tell?: (fault: Fault) => void;
}): Promise<RoundsResult>;
