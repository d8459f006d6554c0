import { createFormingBatch } from './forming-batch.ts';
import { createQueueAndPlaces } from './queue-and-places.ts';
import type { CloseReason, Decision, QueuedRequest, Scheduler } from './schedule.ts';

export interface DynamicBatcherOptions {
  /** The model's max_batch_size, at least 1. */
  readonly rows_max: number;
  /** preferred_batch_size; empty means as many as fit. */
  readonly preferred: readonly number[];
  /** max_queue_delay_microseconds; 0 sends whatever waits as soon as an instance is free. */
  readonly delay_us: number;
  /** Places of each instance that are for batches which cannot grow any more: behind one that it runs. */
  readonly places_ahead: number;
  /** Requests that may wait, also those that only wait for company; one more is refused. */
  readonly queue_max: number;
}

type Verdict =
  | { readonly type: 'send'; readonly count: number; readonly reason: CloseReason }
  /** Until a time, or until something arrives. */
  | { readonly type: 'wait'; readonly untilUs: number | undefined };

/**
 * Triton's dynamic batcher (dynamic_batch_scheduler.cc), without priorities and queue policies.
 *
 * A batch is formed from the queue's head each time that an instance is free, so it is as large as
 * can be. One that cannot grow (2) gains nothing by waiting here and may go earlier, to stand behind
 * the batch that an instance runs, so that the instance does not idle in between. It is sent when
 * 1. a prefix of it has a preferred size and its oldest request has not yet waited for the delay;
 * 2. it cannot grow: the next request does not fit or has another shape;
 * 3. its oldest request has waited for the delay, or there is no delay.
 * Else it waits until the delay is over. A client's own batch is never split.
 *
 * Unlike Triton, a batch never grows past the largest preferred size while instances are busy.
 */
export function createDynamicScheduler<R extends QueuedRequest = QueuedRequest>(
  options: DynamicBatcherOptions,
): Scheduler<R> {
  const fitting = options.preferred.filter((size) => size >= 1 && size <= options.rows_max);
  const rowsWanted = fitting.length === 0 ? options.rows_max : Math.max(...fitting);
  const waits = createQueueAndPlaces<R>(options.queue_max);
  const { queue, instances } = waits;
  const forming = createFormingBatch(queue, { rows_wanted: rowsWanted, preferred: new Set(fitting) });
  /** The wake that the caller knows of. */
  let wishedUs: number | undefined;

  const judge = (nowUs: number): Verdict => {
    forming.extend();
    if (forming.count === 0) return { type: 'wait', untilUs: undefined };
    const dueUs = forming.oldestUs + options.delay_us;
    const expired = options.delay_us > 0 && nowUs >= dueUs;
    if (forming.preferredCount > 0 && !expired)
      return { type: 'send', count: forming.preferredCount, reason: 'preferred' };
    if (forming.closed !== undefined) return { type: 'send', count: forming.count, reason: forming.closed };
    if (expired) return { type: 'send', count: forming.count, reason: 'delay' };
    if (options.delay_us === 0) return { type: 'send', count: forming.count, reason: 'free' };
    return { type: 'wait', untilUs: dueUs };
  };

  const take = (count: number): R[] => {
    const batch: R[] = [];
    while (batch.length < count) {
      const request = queue.shift();
      if (request === undefined) break;
      batch.push(request);
    }
    forming.reset();
    return batch;
  };

  const dispatch = (nowUs: number): Decision<R>[] => {
    const decisions: Decision<R>[] = [];
    while (instances.free > 0) {
      const verdict = judge(nowUs);
      const isIdle = instances.mostFree > options.places_ahead;
      if (!isIdle && forming.closed === undefined) break;
      if (verdict.type === 'wait') {
        // A wake that is no longer needed is left to come: it finds nothing to do.
        if (verdict.untilUs !== undefined && verdict.untilUs !== wishedUs) {
          wishedUs = verdict.untilUs;
          decisions.push({ type: 'wake', atUs: wishedUs });
        }
        break;
      }
      const instance = instances.take();
      if (instance === undefined) break;
      decisions.push({ type: 'dispatch', instance, batch: take(verdict.count), reason: verdict.reason });
    }
    return decisions;
  };

  return {
    get waiting() {
      return queue.length;
    },
    step(event, nowUs) {
      const before = queue.length;
      const refusal = waits.take(event);
      if (refusal !== undefined) return [refusal];
      if (queue.length < before) forming.reset();
      if (event.type === 'time') wishedUs = undefined;
      const decisions = dispatch(nowUs);
      // The caller may have dropped its timer then, so the next wish is told anew.
      if (queue.length === 0) wishedUs = undefined;
      return decisions;
    },
  };
}
