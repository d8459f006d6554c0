import type { EndedJob, EndedSequence, EndedStep, Fault } from './rounds.mjs';

export interface StepSequence {
  readonly begunMs: number;
  readonly steps: readonly EndedStep[];
}

type Death = Pick<Fault, 'kind' | 'role' | 'atMs' | 'deadPid'>;

export declare function stepMayFail(
  sequences: readonly StepSequence[],
  faults: readonly Death[],
  lapsed: readonly number[],
): (job: Pick<EndedJob, 'id' | 'endedMs'>, reason: string) => boolean;
export declare function stepProblems(sequences: readonly StepSequence[]): readonly string[];
export declare function sequenceProblems(
  sequences: readonly EndedSequence[],
  faults: readonly Death[],
  lapsed: readonly number[],
): readonly string[];
