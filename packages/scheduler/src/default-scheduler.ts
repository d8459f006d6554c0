import { createQueueAndPlaces, decidesNothing } from './queue-and-places.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { Decision, InstanceKey, QueuedRequest, Scheduler } from './schedule.ts';

/** Rows that no two requests fit into. */
const ONE = 1;

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
  const waits = createQueueAndPlaces<R>({ policies: NO_POLICIES, queue_max: options.queue_max });
  const { queue, background, instances } = waits;

  const dispatch = () => {
    const decisions: Decision<R>[] = [];
    while (queue.length > 0 && instances.free > 0) {
      const request = queue.shift();
      const instance = instances.take(request?.near);
      if (instance === undefined || request === undefined) break;
      decisions.push({ type: 'dispatch', instance, batch: [request], reason: 'single' });
    }
    return decisions;
  };

  const spare = (instance: InstanceKey): Decision<R>[] => {
    if (queue.length > 0 || background.length === 0 || !instances.takeOf(instance)) return [];
    return [{ type: 'dispatch', instance, batch: background.form(ONE), reason: 'spare' }];
  };

  return {
    get waiting() {
      return queue.length;
    },
    get background() {
      return background.length;
    },
    step(event) {
      if (event.type === 'instance-spare') return spare(event.instance);
      // What waits here waits for an instance: with one free the queue is empty.
      const refusal = waits.take(event);
      if (refusal !== undefined) return [refusal];
      return decidesNothing(event) ? [] : dispatch();
    },
  };
}
