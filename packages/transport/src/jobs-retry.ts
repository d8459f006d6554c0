import type { Job } from 'bullmq';

const BACKOFFS: ReadonlySet<string> = new Set(['fixed', 'exponential']);

/** The type of the job's backoff where no time can be told by it. */
export function unservedBackoff({ opts: { backoff } }: Pick<Job, 'opts'>): string | undefined {
  return typeof backoff === 'object' && !BACKOFFS.has(backoff.type) ? backoff.type : undefined;
}

/** Whether the job, failing now, is over, and not tried again as its attempts say. */
export function isLastFailure(job: Pick<Job, 'opts' | 'attemptsMade'>, retry: boolean): boolean {
  return !retry || unservedBackoff(job) !== undefined || job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
}
