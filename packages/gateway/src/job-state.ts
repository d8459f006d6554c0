import { isJobCancelled, parseFailedReason } from '@nereid/protocol';
import type { JobState, StoredJob } from '@nereid/transport';
import type { JobExpiry } from './jobs.ts';

/** A job's state as clients see it: BullMQ's, and what its data and its reason say beyond that. */
export type PublicJobState = JobState | 'cancelled' | 'expired';

export const PUBLIC_JOB_STATES: readonly PublicJobState[] = [
  'waiting',
  'delayed',
  'running',
  'completed',
  'failed',
  'cancelled',
  'expired',
];

export function isOver({ state }: StoredJob): boolean {
  return state === 'completed' || state === 'failed';
}

/** One that is marked is cancelled for its client before whoever takes it has said so. */
export function publicState(job: StoredJob, expiry: JobExpiry | undefined): PublicJobState {
  if (expiry?.over === true) return 'expired';
  return isCancelled(job) ? 'cancelled' : job.state;
}

function isCancelled(job: StoredJob): boolean {
  if (job.state === 'failed') return parseFailedReason(job.failedReason ?? '').code === 'CANCELLED';
  return job.state !== 'completed' && isJobCancelled(job.data);
}

const UNENDED: readonly JobState[] = ['waiting', 'delayed', 'running'];

/** In which states of BullMQ those of a public one may be found. */
export function storedStates(state: PublicJobState | undefined): ReadonlySet<JobState> {
  switch (state) {
    case undefined:
      return new Set([...UNENDED, 'completed', 'failed']);
    case 'cancelled':
      return new Set([...UNENDED, 'failed']);
    case 'expired':
      return new Set(['completed', 'failed']);
    default:
      return new Set([state]);
  }
}

/** As its data say, whoever wrote them. */
export function jobTagsOf({ data }: StoredJob): readonly string[] {
  const tags = typeof data === 'object' && data !== null ? (data as { readonly tags?: unknown }).tags : undefined;
  return Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : [];
}
