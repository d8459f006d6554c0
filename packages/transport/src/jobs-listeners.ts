import { NereidError } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import type { JobEvents } from './jobs-events.ts';

const WAITERS_MAX = 10_000;

export interface JobListenersParts {
  readonly log: Log;
  /** Opens the events of a model's queue; `idle` is called once nobody has listened for a while. */
  readonly listen: (model: string, idle: () => void) => Promise<JobEvents>;
}

/** The queues whose events are listened to, and those who wait for some. */
export interface JobListeners {
  /** The events of a model's queue, as long as they are open. */
  opened(model: string): JobEvents | undefined;
  /** Opens them where they are not. */
  open(model: string): Promise<JobEvents>;
  /**
   * Counts one who waits, whom `wake` tells that the events he listens to are no longer open, or that it is over.
   * Returns how to leave. Throws UNAVAILABLE while too many wait.
   */
  enter(wake: () => void): () => void;
  /** The connection broke, and events may have been lost with it. */
  reopen(): void;
  /** Lets all go. */
  close(): Promise<void>;
  readonly closed: boolean;
  /** Those who wait. */
  readonly size: number;
}

/** A queue whose events are listened to. */
interface ListenedQueue {
  readonly opening: Promise<JobEvents>;
  /** What `opening` gave. */
  open: JobEvents | undefined;
}

export function createJobListeners({ log, listen }: JobListenersParts): JobListeners {
  const queues = new Map<string, ListenedQueue>();
  const closings = new Set<Promise<void>>();
  const waiters = new Set<() => void>();
  let closed = false;

  /** BullMQ listens again only seconds after a loss; each waiter opens its queue's events anew, and looks. */
  const reopen = () => {
    for (const { opening } of queues.values()) closeEvents(opening);
    queues.clear();
    for (const waiter of [...waiters]) waiter();
  };

  const closeEvents = (opening: Promise<JobEvents>) => {
    const ending = opening
      .then((open) => open.close())
      .catch((error) => log.debug({ err: error }, 'job events not closed'))
      .finally(() => closings.delete(ending));
    closings.add(ending);
  };

  return {
    opened: (model) => queues.get(model)?.open,
    open(model) {
      const known = queues.get(model);
      if (known !== undefined) return known.opening;
      const forget = () => {
        if (queues.get(model) === listened) queues.delete(model);
      };
      const idle = () => {
        forget();
        closeEvents(opening);
      };
      const opening = listen(model, idle);
      const listened: ListenedQueue = { opening, open: undefined };
      queues.set(model, listened);
      opening.then((open) => {
        listened.open = open;
      }, forget);
      return opening;
    },
    enter(wake) {
      if (waiters.size >= WAITERS_MAX) {
        throw new NereidError('UNAVAILABLE', `more than ${WAITERS_MAX} clients wait for jobs; ask without waiting`);
      }
      const own = () => wake();
      waiters.add(own);
      return () => void waiters.delete(own);
    },
    reopen,
    async close() {
      closed = true;
      reopen();
      await Promise.all(closings);
    },
    get closed() {
      return closed;
    },
    get size() {
      return waiters.size;
    },
  };
}
