import type { EndedJob } from './rounds.mjs';

/** Jobs of a queue that are over, by id, and how often each was told to be. */
export interface EndedJobs {
  readonly completed: ReadonlyMap<string, KeptJob>;
  readonly failed: ReadonlyMap<string, { readonly failedReason: string }>;
  readonly ends: ReadonlyMap<string, number>;
}

export interface KeptJob {
  readonly id: string;
  readonly data: object;
  readonly returnvalue: unknown;
}

export interface Verdict {
  readonly end: 'completed' | 'lost' | 'failed' | 'wrong' | 'doubled' | 'missing';
  readonly code?: string;
  readonly problem?: string;
}

export declare function verdictOf(
  job: EndedJob,
  ended: EndedJobs,
  mayFail: (job: EndedJob, reason: string) => boolean,
): Verdict;
export declare function problemOfUnknown(model: string, job: KeptJob, told: number | undefined): string | undefined;
export declare function twice(
  model: string,
  accepted: readonly EndedJob[],
  ended: Pick<EndedJobs, 'completed'>,
): readonly (EndedJob & { readonly text: string })[];
