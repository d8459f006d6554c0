/**
 * How jobs end, by BullMQ's events of their queue. BullMQ's own `waitUntilFinished` asks Redis after each job, and
 * rejects where a job was removed meanwhile; here one listener serves all, and is there before a job is added.
 */
import { failedReasonError, NereidError } from './error.ts';

/** What is used of BullMQ's `Queue`. */
export interface QueueLike {
  add(name: string, data: unknown, options?: object): Promise<unknown>;
  getJob(id: string): Promise<unknown>;
}

/** Of both events, what is used. */
export interface EndEvent {
  readonly jobId: string;
  readonly returnvalue?: unknown;
  readonly failedReason?: string;
}

/** What is used of BullMQ's `QueueEvents`. */
export interface QueueEventsLike {
  on(event: 'completed' | 'failed', listener: (event: EndEvent) => void): unknown;
  off(event: 'completed' | 'failed', listener: (event: EndEvent) => void): unknown;
  waitUntilReady(): Promise<unknown>;
}

export interface Outcomes {
  /** The return value of a job from its end on; rejects with its error. */
  of(id: string): Promise<unknown>;
  /** From now on the job is there, or was removed. */
  added(id: string): void;
  /** Of one that was not added. */
  forget(id: string): void;
  close(): void;
}

interface Waiter {
  readonly promise: Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: NereidError) => void;
  isAdded: boolean;
  missed: number;
}

/**
 * Events may be lost with a connection, or trimmed from their stream: so often jobs are looked at. At first more often,
 * since BullMQ tells that it is ready before it reads, and what happens between is lost.
 */
const LOOK_MS = 5_000;
const FIRST_LOOK_MS = 250;
/** So many at a time, those first that were looked at longest ago. */
const LOOKS_MAX = 50;
/** A job that was not there so often was removed: after the first time its event may still be on its way. */
const MISSED_MAX = 2;

export function createOutcomes(queue: QueueLike, events: QueueEventsLike): Outcomes {
  const waiting = new Map<string, Waiter>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pauseMs = FIRST_LOOK_MS;

  const settle = (id: string, end: (waiter: Waiter) => void) => {
    const waiter = waiting.get(id);
    if (waiter === undefined) return;
    waiting.delete(id);
    end(waiter);
    if (waiting.size === 0) stop();
  };
  const completed = ({ jobId, returnvalue }: EndEvent) => settle(jobId, ({ resolve }) => resolve(returnvalue));
  const failed = ({ jobId, failedReason = '' }: EndEvent) =>
    settle(jobId, ({ reject }) => reject(failedReasonError(failedReason)));

  const look = async (id: string, waiter: Waiter) => {
    const job = (await queue.getJob(id)) as
      | { readonly finishedOn?: number; readonly returnvalue?: unknown; readonly failedReason?: string }
      | undefined;
    if (job === undefined && waiter.isAdded && ++waiter.missed === MISSED_MAX)
      failed({ jobId: id, failedReason: GONE });
    if (job?.finishedOn === undefined) return;
    if (job.failedReason) failed({ jobId: id, failedReason: job.failedReason });
    else completed({ jobId: id, returnvalue: job.returnvalue });
  };
  const lookAtSome = async () => {
    const some = [...waiting].slice(0, LOOKS_MAX);
    for (const [id, waiter] of some) {
      waiting.delete(id);
      waiting.set(id, waiter);
    }
    // Without Redis there is nothing to see: the next time.
    await Promise.all(some.map(([id, waiter]) => look(id, waiter).catch(() => {})));
    stop();
    if (waiting.size > 0) timer = later();
  };
  const later = () => {
    const started = setTimeout(() => void lookAtSome(), pauseMs);
    pauseMs = Math.min(pauseMs * 2, LOOK_MS);
    // The connection of the events keeps Node alive as long as that is wanted.
    (started as { unref?: () => void }).unref?.();
    return started;
  };
  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
  };

  events.on('completed', completed);
  events.on('failed', failed);
  return {
    of(id) {
      const known = waiting.get(id);
      if (known !== undefined) return known.promise;
      let resolve: Waiter['resolve'] = () => {};
      let reject: Waiter['reject'] = () => {};
      const promise = new Promise<unknown>((good, bad) => {
        resolve = good;
        reject = bad;
      });
      // Whoever asks for the result sees it; nobody has to.
      promise.catch(() => {});
      waiting.set(id, { promise, resolve, reject, isAdded: false, missed: 0 });
      timer ??= later();
      return promise;
    },
    added(id) {
      const waiter = waiting.get(id);
      if (waiter !== undefined) waiter.isAdded = true;
    },
    forget: (id) => settle(id, () => {}),
    close() {
      events.off('completed', completed);
      events.off('failed', failed);
      const closed = new NereidError('UNAVAILABLE', 'the producer was closed', { reason: 'closed' });
      for (const id of [...waiting.keys()]) settle(id, ({ reject }) => reject(closed));
    },
  };
}

const GONE = 'NOT_FOUND: the job is not there any more, and what became of it is not known';
