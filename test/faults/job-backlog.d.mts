import type { Ending } from '../command.mjs';

export type BacklogRole = 'gateway' | 'coordinator';

export interface BacklogRound {
  readonly name: 'never' | 'left';
  readonly submitMs: number;
  readonly drainMs: number;
  /** Jobs that have a result in the end. */
  readonly kept: number;
  /** Bytes from the first jobs to all. */
  readonly growth: Readonly<Record<BacklogRole, { readonly rss: number; readonly heap: number }>>;
  readonly full: Readonly<Record<BacklogRole, NodeJS.MemoryUsage>>;
  /** Commands that Redis was sent a second before, and while all waited. */
  readonly idleBefore: number;
  readonly idleFull: number;
  readonly problems: readonly string[];
}

export declare function runBacklog(options: {
  readonly jobs: number;
  readonly warmUp: number;
  readonly idleMs: number;
  readonly rounds?: readonly BacklogRound['name'][];
  readonly tell?: (round: BacklogRound) => void;
}): Promise<{ readonly results: readonly BacklogRound[]; readonly endings: readonly Ending[] }>;
