import type { Ending } from '../command.mjs';

export type SequenceRound = 'coordinator' | 'worker' | 'drain';

export interface SequenceRoundResult {
  readonly name: SequenceRound;
  /** That ended during it, and how many of their steps were answered. */
  readonly sequences: number;
  readonly steps: number;
  readonly right: number;
  /** Told to be lost. */
  readonly lost: number;
  /** Of a drain: until the worker had ended. */
  readonly drainMs?: number;
  readonly problems: readonly string[];
}

export interface SequenceRoundsResult {
  readonly results: readonly SequenceRoundResult[];
  /** What roles held once all was answered, in words. */
  readonly left: readonly string[];
  readonly endings: readonly Ending[];
}

export declare function runSequenceRounds(options: {
  readonly kills: number;
  readonly everyMs: number;
  /** All without it. */
  readonly rounds?: readonly SequenceRound[];
  readonly tell?: (result: SequenceRoundResult) => void;
}): Promise<SequenceRoundsResult>;
