import type { QueueNode, RequestQueue } from './request-queue.ts';
import type { QueuedRequest } from './schedule.ts';

export interface BatchSizes {
  /** The largest preferred size that fits, else max_batch_size. Only one client's own batch exceeds it. */
  readonly rows_wanted: number;
  readonly preferred: ReadonlySet<number>;
}

/**
 * The batch that would be sent now: the longest run from the queue's head that may go together.
 * It is kept between events and only extended, so that each request is looked at once however
 * often the batcher is asked.
 */
export interface FormingBatch {
  readonly count: number;
  readonly rows: number;
  /** Requests of the longest prefix whose rows are a preferred size, 0 for none. */
  readonly preferredCount: number;
  /** Earliest arrival in it. */
  readonly oldestUs: number;
  /** Why nothing more can join, else undefined. */
  readonly closed: 'full' | 'shape' | undefined;
  extend(): void;
  /** To be called when a request of it left the queue. */
  reset(): void;
}

export function createFormingBatch<R extends QueuedRequest>(queue: RequestQueue<R>, sizes: BatchSizes): FormingBatch {
  let count = 0;
  let rows = 0;
  let preferredCount = 0;
  let oldestUs = Number.POSITIVE_INFINITY;
  let closed: 'full' | 'shape' | undefined;
  let last: QueueNode<R> | undefined;

  const join = (node: QueueNode<R>) => {
    const { request } = node;
    if (last !== undefined) {
      // Only neighbours go together: what does not fit closes the batch, nothing is pulled past it.
      if (rows + request.rows > sizes.rows_wanted) closed = 'full';
      else if (request.shapeKey !== last.request.shapeKey) closed = 'shape';
      if (closed !== undefined) return;
    }
    last = node;
    count++;
    rows += request.rows;
    oldestUs = Math.min(oldestUs, request.arrivedUs);
    if (sizes.preferred.has(rows)) preferredCount = count;
    if (rows >= sizes.rows_wanted) closed = 'full';
  };

  return {
    get count() {
      return count;
    },
    get rows() {
      return rows;
    },
    get preferredCount() {
      return preferredCount;
    },
    get oldestUs() {
      return oldestUs;
    },
    get closed() {
      return closed;
    },
    extend() {
      while (closed === undefined) {
        const node = last === undefined ? queue.head : last.next;
        if (node === undefined) break;
        join(node);
      }
    },
    reset() {
      count = 0;
      rows = 0;
      preferredCount = 0;
      oldestUs = Number.POSITIVE_INFINITY;
      closed = undefined;
      last = undefined;
    },
  };
}
