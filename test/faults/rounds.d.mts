import type { Ending } from '../command.mjs';

export type FaultName = 'kill' | 'pause' | 'redis';
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
}

export interface Fault {
  readonly round: number;
  readonly kind: 'kill' | 'pause' | 'restart';
  readonly role: Victim;
  readonly place: number;
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
  /** Until each gateway had given a right answer again, once all ran again. */
  readonly healthyMs: number;
  readonly right: number;
  readonly wrong: number;
  readonly refused: number;
  readonly broken: number;
}

export interface RoundsResult {
  readonly faults: readonly Fault[];
  readonly requests: readonly EndedRequest[];
  /** What was left of the dead while the others ran, and of all once they had stopped. */
  readonly left: readonly string[];
  readonly leftAtEnd: readonly string[];
  readonly endings: readonly Ending[];
}

export declare const FAULTS: Readonly<Record<FaultName, readonly Pick<Fault, 'kind' | 'role'>[]>>;
export declare function runRounds(options: {
  readonly rounds: number;
  /** `kill` without it. */
  readonly faults?: readonly FaultName[];
  readonly tell?: (fault: Fault) => void;
}): Promise<RoundsResult>;
export declare function unexcused(result: Pick<RoundsResult, 'faults' | 'requests'>): readonly EndedRequest[];
export declare function medianGapMs(faults: readonly Fault[], role: Victim): number;
