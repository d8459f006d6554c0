import type { Job } from 'bullmq';

/** What is looked at of a job. */
type Attempted = Pick<Job, 'opts' | 'attemptsMade'>;

const BACKOFFS: ReadonlySet<string> = new Set(['fixed', 'exponential']);

/** The type of the job's backoff where no time can be told by it. Its producer may have written anything. */
function unservedBackoff({ opts: { backoff } }: Attempted): string | undefined {
  if (typeof backoff !== 'object' || backoff === null) return undefined;
  return BACKOFFS.has(backoff.type) ? undefined : backoff.type;
}

/** Whether the job, failing now, is over, and not tried again as its attempts say. */
export function isLastFailure(job: Attempted, retry: boolean): boolean {
  // As BullMQ compares them, whatever they are.
  const hasMore = job.attemptsMade + 1 < (job.opts.attempts ?? 1);
  return !retry || !hasMore || unservedBackoff(job) !== undefined;
}

/** The reason, and why it is not retried where that was wanted and cannot be. */
export function failureText(job: Attempted, reason: string, retry: boolean): string {
  const unserved = retry ? unservedBackoff(job) : undefined;
  return unserved === undefined ? reason : `${reason} (not retried: backoff '${unserved}' is not served)`;
}
