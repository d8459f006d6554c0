import type { BatchStrategy, StrategyBatch } from './batch-strategy.ts';
import { answerByUs } from './eager-close.ts';
import type { PriorityQueue } from './priority-queue.ts';
import type { QueuePlace } from './queue-place.ts';
import type { QueuedRequest } from './schedule.ts';

type ClosedBy = 'full' | 'shape' | 'strategy';

export interface BatchSizes {
  /** The largest preferred size that fits, else max_batch_size. Only one client's own batch exceeds it. */
  readonly rows_wanted: number;
  readonly preferred: ReadonlySet<number>;
}

/**
 * The batch that would be sent now: the longest run from the queue's head that may go together.
 * It is kept between events and only extended, so that each request is looked at once however often
 * the batcher is asked; where a request came or left within it, it is formed anew.
 */
export interface FormingBatch {
  readonly count: number;
  /** Requests of the longest prefix whose rows are a preferred size, 0 for none. */
  readonly preferredCount: number;
  /** Earliest arrival in it. */
  readonly oldestUs: number;
  /** When the first of its senders gives up, infinite for never. */
  readonly answerByUs: number;
  /** Why nothing more can join, else undefined. */
  readonly closed: ClosedBy | undefined;
  /** Brings it up to what waits now. */
  extend(): void;
  /** To be called when its requests were sent. */
  reset(): void;
}

/** `strategy` is asked of each request that size and shape let join. */
export function createFormingBatch<R extends QueuedRequest>(
  queue: PriorityQueue<R>,
  sizes: BatchSizes,
  strategy?: BatchStrategy<R>,
): FormingBatch {
  let count = 0;
  let rows = 0;
  let preferredCount = 0;
  let oldestUs = Number.POSITIVE_INFINITY;
  let earliestUs = Number.POSITIVE_INFINITY;
  let closed: ClosedBy | undefined;
  let begun: StrategyBatch<R> | undefined;
  let last: QueuePlace<R> | undefined;

  const join = (place: QueuePlace<R>) => {
    const { request } = place;
    // What closes the batch counts too: with it gone, others may join.
    queue.watch(place);
    if (last !== undefined) {
      // Only neighbours go together: what does not fit closes the batch, nothing is pulled past it.
      if (rows + request.rows > sizes.rows_wanted) closed = 'full';
      else if (request.shapeKey !== last.request.shapeKey) closed = 'shape';
      if (closed !== undefined) return;
    }
    if (strategy !== undefined) {
      begun ??= strategy();
      if (!begun.include(request)) closed = 'strategy';
      if (closed !== undefined && last !== undefined) return;
    }
    last = place;
    count++;
    rows += request.rows;
    oldestUs = Math.min(oldestUs, request.arrivedUs);
    if (request.deadlineUs !== undefined) earliestUs = Math.min(earliestUs, answerByUs(request));
    if (sizes.preferred.has(rows)) preferredCount = count;
    if (rows >= sizes.rows_wanted) closed = 'full';
  };

  const reset = () => {
    count = 0;
    rows = 0;
    preferredCount = 0;
    oldestUs = Number.POSITIVE_INFINITY;
    earliestUs = Number.POSITIVE_INFINITY;
    closed = undefined;
    last = undefined;
    queue.watch(undefined);
    begun?.end();
    begun = undefined;
  };

  return {
    get count() {
      return count;
    },
    get preferredCount() {
      return preferredCount;
    },
    get oldestUs() {
      return oldestUs;
    },
    get answerByUs() {
      return earliestUs;
    },
    get closed() {
      return closed;
    },
    extend() {
      if (!queue.intact) reset();
      while (closed === undefined) {
        const place = last === undefined ? queue.head : queue.after(last);
        if (place === undefined) break;
        join(place);
      }
    },
    reset,
  };
}
