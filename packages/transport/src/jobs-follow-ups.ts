import { errorInfo, isJsonObject, parseFailedReason, webhookUrl } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Job } from 'bullmq';
import type { JobTaker, StoredJob, TakeOptions } from './jobs.ts';
import type { Deliveries } from './jobs-deliveries.ts';
import { isBuried, type Undertaker } from './jobs-letters.ts';
import { isLastFailure } from './jobs-retry.ts';
import { storedJob } from './jobs-stored.ts';
import { untilDone } from './jobs-until.ts';

export interface FollowUpsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly model: string;
  readonly letters: Undertaker;
  readonly deliveries: Pick<Deliveries, 'add'>;
  readonly read: (id: string) => Promise<Job | undefined>;
}

/** What Redis refuses so often while it answers is left out: the job is to end. */
const REFUSALS_MAX = 3;

/**
 * A taker that puts down what a job's end brings about before it ends it: the dead letter of one that failed for good,
 * the delivery of its webhook. Whoever dies in between leaves a job that runs again, and ends with the same. A job that
 * succeeds and has no webhook costs nothing.
 */
export function withFollowUps(
  make: (options: TakeOptions) => JobTaker,
  options: TakeOptions,
  parts: FollowUpsParts,
): JobTaker {
  const { clock, log, model } = parts;
  /** URLs by job, of those that are held and have one. */
  const webhooks = new Map<string, string>();
  const ending = new Set<Promise<void>>();
  /** Letters of earlier deaths on their way out, by job. */
  const exhuming = new Map<string, Promise<void>>();
  let closing = false;

  const taker = make({
    ...options,
    taken(job) {
      const url = urlOf(job.data);
      if (url !== undefined) webhooks.set(job.id, url);
      if (job.starts > 1) exhume(job.id);
      const isWanted = options.taken(job);
      if (!isWanted) webhooks.delete(job.id);
      return isWanted;
    },
    lost(id) {
      webhooks.delete(id);
      options.lost(id);
    },
  });

  const answers = (id: string) =>
    parts.read(id).then(
      () => true,
      (error) => errorInfo(error).code !== 'UNAVAILABLE',
    );

  /** Until Redis has answered, as the end itself is; false where the taker is closed first. */
  const putDown = async (id: string, step: () => Promise<void>): Promise<boolean> => {
    let refusals = 0;
    const again = async (error: unknown) => {
      log.debug({ err: error, model, job: id }, 'what follows a job is not put down, trying again');
      if (closing) return false;
      if (await answers(id)) refusals++;
      if (refusals < REFUSALS_MAX) return true;
      log.error({ err: error, model, job: id }, 'the dead letter or the webhook of a job is left out');
      return false;
    };
    const isDown = await untilDone(clock, () => step().then(() => true), again);
    return isDown === true || refusals >= REFUSALS_MAX;
  };

  /** One that was taken before may have died, and been retried by its producer. */
  const exhume = (id: string) => {
    const going = parts.letters
      .exhume(model, id)
      .catch((error) => log.debug({ err: error, model, job: id }, 'dead letter of a job that runs again not removed'))
      .finally(() => {
        // It may have been taken once more.
        if (exhuming.get(id) === going) exhuming.delete(id);
      });
    exhuming.set(id, going);
  };

  const after = (id: string, step: () => Promise<void>, end: () => Promise<void>): Promise<void> => {
    const ended = putDown(id, step).then(async (isDown) => {
      webhooks.delete(id);
      // Else it goes back, and ends with whoever takes it next.
      if (isDown) await end();
    });
    ending.add(ended);
    return ended.finally(() => ending.delete(ended));
  };

  const tell = async (url: string | undefined, id: string, ended: StoredJob) => {
    if (url !== undefined) await parts.deliveries.add(model, id, { url, ended });
  };

  const asEnded = (job: Job, state: 'completed' | 'failed', reason?: string): StoredJob => ({
    ...storedJob(model, job.id ?? '', state, job),
    data: withoutInputs(job.data),
    result: null,
    failedReason: reason,
    finishedMs: clock.wallMs(),
    attemptsMade: job.attemptsMade + 1,
  });

  return {
    get held() {
      return taker.held;
    },
    more: () => taker.more(),
    progress: (id, value, bytes) => taker.progress(id, value, bytes),
    complete(id, result, note) {
      const url = webhooks.get(id);
      if (url === undefined) return taker.complete(id, result, note);
      const step = async () => {
        const job = await parts.read(id);
        if (job !== undefined) await tell(url, id, asEnded(job, 'completed'));
      };
      return after(id, step, () => taker.complete(id, result, note));
    },
    fail(id, reason, retry, note) {
      const url = webhooks.get(id);
      const mayBeBuried = isBuried(parseFailedReason(reason));
      if (url === undefined && !mayBeBuried) return taker.fail(id, reason, retry, note);
      const step = async () => {
        const job = await parts.read(id);
        if (job === undefined || !isLastFailure(job, retry)) return;
        // Or the new letter would go with the old one.
        await exhuming.get(id);
        if (mayBeBuried) await parts.letters.bury(model, job, reason, note);
        await tell(url, id, asEnded(job, 'failed', reason));
      };
      return after(id, step, () => taker.fail(id, reason, retry, note));
    },
    putBack(id, delayMs) {
      webhooks.delete(id);
      return taker.putBack(id, delayMs);
    },
    async close() {
      closing = true;
      // A job whose end is being prepared ends, rather than going back and running a second time.
      await Promise.allSettled(ending);
      await taker.close();
    },
  };
}

/** Of one that is wrong the job itself says so. */
function urlOf(data: unknown): string | undefined {
  try {
    return isJsonObject(data) ? webhookUrl(data.webhook, 'webhook') : undefined;
  } catch {
    return undefined;
  }
}

function withoutInputs(data: unknown): unknown {
  if (!isJsonObject(data)) return null;
  const { inputs: _inputs, ...rest } = data;
  return rest;
}
