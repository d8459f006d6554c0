import { type Clock, type Log, pause } from '@nereid/runtime';
import type { Job, RepeatOptions, Worker } from 'bullmq';

const RETRY_MS = 200;
/** Then the job scheduler waits for whoever sets it anew. */
const TRIES_MAX = 25;

/**
 * Adds the next job of the scheduler that this job is of, as BullMQ does when one is taken: so a scheduler that nobody
 * serves does not fill its queue. A repeated call adds none.
 */
export async function scheduleNext(
  worker: Pick<Worker, 'jobScheduler'>,
  bull: () => Promise<Job>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const job = await bull();
      const { repeatJobKey: key, name, data, id = '' } = job;
      // In every job that a scheduler has added, though not among the options of `add`.
      const opts: Job['opts'] & { readonly repeat?: RepeatOptions } = job.opts;
      const scheduler = await worker.jobScheduler;
      // BullMQ 6 does not go on with the repeatable jobs of earlier versions either.
      if (key === undefined || opts.repeat === undefined || !(await scheduler.isJobScheduler(key))) return;
      await scheduler.upsertJobScheduler(key, opts.repeat, name, data, opts, { override: false, producerId: id });
      return;
    } catch (error) {
      if (attempt === TRIES_MAX) {
        log.warn({ err: error }, 'the next job of a job scheduler is not added');
        return;
      }
      await pause(clock, RETRY_MS);
    }
  }
}
