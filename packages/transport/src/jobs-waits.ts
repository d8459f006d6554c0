import { NereidError } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Job } from 'bullmq';
import type { StoredJob } from './jobs.ts';
import type { JobEnd, JobEvents } from './jobs-events.ts';
import { endedJob, isOver, likelyState, storedJob } from './jobs-stored.ts';

/** A waiter looks itself so often, should an event be lost with a connection. */
const LOOK_MS = 5_000;
const WAITERS_MAX = 10_000;

export interface JobWaitsParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Opens the events of a model's queue; `idle` is called once nobody has listened for a while. */
  readonly listen: (model: string, idle: () => void) => Promise<JobEvents>;
  /** Asks Redis, and again if that failed. */
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly read: (model: string, id: string) => Promise<Job | undefined>;
  /** The job with its state; `known`: as it was just read. */
  readonly find: (model: string, id: string, known?: Job) => Promise<StoredJob | undefined>;
}

/** Those who wait for the ends of jobs. */
export interface JobWaits {
  /**
   * The job once it is over; else how it was, when the time is up or nobody waits any more. `outcomeOnly`: as its event
   * tells it, without another look.
   */
  wait(
    model: string,
    id: string,
    waitMs: number,
    outcomeOnly: boolean,
    signal?: AbortSignal,
  ): Promise<StoredJob | undefined>;
  /** The connection broke, and events may have been lost with it. */
  reopen(): void;
  /** Lets all go. */
  close(): Promise<void>;
  readonly size: number;
}

/** A queue whose events are listened to. */
interface ListenedQueue {
  readonly opening: Promise<JobEvents>;
  /** What `opening` gave. */
  open: JobEvents | undefined;
}

export function createJobWaits(parts: JobWaitsParts): JobWaits {
  const { clock, log, ask, read, find } = parts;
  const events = new Map<string, ListenedQueue>();
  const closings = new Set<Promise<void>>();
  /** Ends the pause of each waiter. */
  const waiters = new Set<() => void>();
  let closed = false;

  /** BullMQ listens again only seconds after a loss; each waiter opens its queue's events anew, and looks. */
  const reopen = () => {
    for (const { opening } of events.values()) closeEvents(opening);
    events.clear();
    for (const waiter of [...waiters]) waiter();
  };

  const closeEvents = (opening: Promise<JobEvents>) => {
    const ending = opening
      .then((open) => open.close())
      .catch((error) => log.debug({ err: error }, 'job events not closed'))
      .finally(() => closings.delete(ending));
    closings.add(ending);
  };

  const eventsOf = (model: string): Promise<JobEvents> => {
    const known = events.get(model);
    if (known !== undefined) return known.opening;
    const forget = () => {
      if (events.get(model) === listened) events.delete(model);
    };
    const idle = () => {
      forget();
      closeEvents(opening);
    };
    const opening = parts.listen(model, idle);
    const listened: ListenedQueue = { opening, open: undefined };
    events.set(model, listened);
    opening.then((open) => {
      listened.open = open;
    }, forget);
    return opening;
  };

  const wait: JobWaits['wait'] = async (model, id, waitMs, outcomeOnly, signal) => {
    const untilUs = clock.nowUs() + waitMs * 1000;
    if (waiters.size >= WAITERS_MAX) {
      throw new NereidError('UNAVAILABLE', `more than ${WAITERS_MAX} clients wait for jobs; ask without waiting`);
    }
    let wake = () => {};
    const waiter = () => wake();
    waiters.add(waiter);
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
      for (;;) {
        const open = events.get(model)?.open ?? (await ask(() => eventsOf(model)));
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
        if (closed || signal?.aborted) return storedJob(model, id, likelyState(job), job);
      }
    } finally {
      listening?.stop();
      waiters.delete(waiter);
      signal?.removeEventListener('abort', waiter);
    }
  };

  return {
    wait,
    reopen,
    async close() {
      closed = true;
      reopen();
      await Promise.all(closings);
    },
    get size() {
      return waiters.size;
    },
  };
}
