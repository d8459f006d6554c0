import { QUEUE_FULL } from '@nereid/protocol';
import { createInstancePool } from './instance-pool.ts';
import { createRequestQueue } from './request-queue.ts';
import type { Decision, QueuedRequest, Scheduler } from './schedule.ts';

export interface DefaultSchedulerOptions {
  /** Requests that may wait; one more is refused. */
  readonly queue_max: number;
}

/**
 * Triton's default scheduler: first come, first served, each request an execution of its own, also
 * one of many rows. No priority, no timeout, no delay (dynamic_batch_scheduler.cc with
 * batching off).
 */
export function createDefaultScheduler<R extends QueuedRequest = QueuedRequest>(
  options: DefaultSchedulerOptions,
): Scheduler<R> {
  const queue = createRequestQueue<R>();
  const instances = createInstancePool();

  const dispatch = (decisions: Decision<R>[]) => {
    while (queue.length > 0 && instances.free > 0) {
      const instance = instances.take();
      const request = queue.shift();
      if (instance === undefined || request === undefined) break;
      decisions.push({ type: 'dispatch', instance, batch: [request], reason: 'single' });
    }
    return decisions;
  };

  return {
    get waiting() {
      return queue.length;
    },
    step(event) {
      const decisions: Decision<R>[] = [];
      switch (event.type) {
        case 'arrived':
          // What waits here waits for an instance: with one free the queue is empty.
          if (queue.length >= options.queue_max) {
            return [{ type: 'reject', request: event.request, error: QUEUE_FULL }];
          }
          queue.append(event.request);
          break;
        case 'cancelled':
          queue.remove(event.id);
          break;
        case 'instance-free':
          instances.add(event.instance);
          break;
        case 'instance-lost':
          instances.drop(event.instance);
          break;
        case 'time':
          break;
      }
      return dispatch(decisions);
    },
  };
}
