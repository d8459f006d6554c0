import type { Clock } from '@nereid/runtime';
import type { Job } from 'bullmq';
import type { StoredJob } from './jobs.ts';
import type { JobEnd, JobEvents } from './jobs-events.ts';
import type { JobListeners } from './jobs-listeners.ts';
import { endedJob, isOver, likelyState, storedJob } from './jobs-stored.ts';

/** A waiter looks itself so often, should an event be lost with a connection. */
const LOOK_MS = 5_000;

export interface JobWaitsParts {
  readonly clock: Clock;
  readonly listeners: JobListeners;
  /** Asks Redis, and again if that failed. */
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly read: (model: string, id: string) => Promise<Job | undefined>;
  /** The job with its state; `known`: as it was just read. */
  readonly find: (model: string, id: string, known?: Job) => Promise<StoredJob | undefined>;
}

/**
 * Waits for the end of a job: it once it is over; else how it was, when the time is up or nobody waits any more.
 * `outcomeOnly`: as its event tells it, without another look.
 */
export type WaitForJob = (
  model: string,
  id: string,
  waitMs: number,
  outcomeOnly: boolean,
  signal?: AbortSignal,
) => Promise<StoredJob | undefined>;

export function createJobWait(parts: JobWaitsParts): WaitForJob {
  const { clock, ask, read, find, listeners } = parts;

  return async (model, id, waitMs, outcomeOnly, signal) => {
    const untilUs = clock.nowUs() + waitMs * 1000;
    let wake = () => {};
    const waiter = () => wake();
    const leave = listeners.enter(waiter);
    signal?.addEventListener('abort', waiter);
    let listening: { readonly to: JobEvents; readonly stop: () => void } | undefined;
    let ended = false;
    let end: JobEnd | undefined;
    const told = (how: JobEnd | undefined) => {
      ended = true;
      end = how;
      wake();
    };
    try {
      // One that is over, or that somebody made up, costs no connection.
      if (listeners.opened(model) === undefined) {
        const job = await ask(() => read(model, id));
        if (job === undefined) return undefined;
        const found = job.finishedOn === undefined ? undefined : await find(model, id, job);
        if (found !== undefined && isOver(found.state)) return found;
      }
      for (;;) {
        const open = listeners.opened(model) ?? (await ask(() => listeners.open(model)));
        if (listening?.to !== open) {
          listening?.stop();
          listening = { to: open, stop: open.listen(id, told) };
        }
        ended = false;
        end = undefined;
        const job = await ask(() => read(model, id));
        if (job === undefined) return undefined;
        const leftUs = untilUs - clock.nowUs();
        if (job.finishedOn !== undefined || leftUs <= 0) {
          const found = await find(model, id, job);
          if (found === undefined || isOver(found.state) || leftUs <= 0) return found;
        }
        await new Promise<void>((resolve) => {
          const timer = clock.at(clock.nowUs() + Math.min(leftUs, LOOK_MS * 1000), () => wake());
          wake = () => {
            timer.cancel();
            wake = () => {};
            resolve();
          };
          if (ended || signal?.aborted) wake();
        });
        if (outcomeOnly && end !== undefined) return endedJob(model, id, job, end);
        if (listeners.closed || signal?.aborted) return storedJob(model, id, likelyState(job), job);
      }
    } finally {
      listening?.stop();
      leave();
      signal?.removeEventListener('abort', waiter);
    }
  };
}
