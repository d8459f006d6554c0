import { QUEUE_TIMEOUT } from '@nereid/protocol';
import type { BatchStrategy } from './batch-strategy.ts';
import { createEagerClose } from './eager-close.ts';
import { createFillRule, type FillRule } from './fill-rule.ts';
import { createFormingBatch } from './forming-batch.ts';
import { createQueueAndPlaces, decidesNothing } from './queue-and-places.ts';
import { hasLevels, hasTimeouts, type QueuePolicies } from './queue-policy.ts';
import { createReturningClients } from './returning-clients.ts';
import type { CloseReason, Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';

export interface DynamicBatcherOptions<R extends QueuedRequest = QueuedRequest> {
  /** The model's max_batch_size, at least 1. */
  readonly rows_max: number;
  /** preferred_batch_size; empty means as many as fit. */
  readonly preferred: readonly number[];
  /** max_queue_delay_microseconds; 0 sends whatever waits as soon as an instance is free. */
  readonly delay_us: number;
  /** Places of each instance that are for batches which cannot grow any more: behind one that it runs. */
  readonly places_ahead: number;
  /** Requests that may wait in all, also those that only wait for company; one more is refused. */
  readonly queue_max: number;
  readonly policies: QueuePolicies;
  readonly strategy?: BatchStrategy<R> | undefined;
  /** Whether a batch may go before its delay is over (eager-close.ts). */
  readonly eager?: boolean;
  /** Whether background requests get rows that are left in batches of others. */
  readonly fills?: boolean;
}

type Verdict =
  | { readonly type: 'send'; readonly count: number; readonly reason: CloseReason }
  /** Until a time, or until something happens. */
  | { readonly type: 'wait'; readonly untilUs: number };

const NO_LEVELS: readonly never[] = [];

/**
 * Triton's dynamic batcher (dynamic_batch_scheduler.cc), with priorities and queue policies.
 *
 * A batch is formed from the queue's head, whatever the levels of its requests, each time that an
 * instance is free, so it is as large as can be and nobody of a lower level goes before one of a higher
 * that came in time. One that cannot grow (2) gains nothing by waiting here and may go earlier where no
 * policy asks who still waits, to stand behind the batch that an instance runs, so that the instance
 * does not idle in between. It is sent when
 * 1. a prefix of it has a preferred size and its oldest request has not yet waited for the delay;
 * 2. it cannot grow: the next request does not fit, has another shape or is kept out by the model's strategy;
 * 3. its oldest request has waited for the delay, or there is no delay and no client that has just been
 *    answered is waited for (returning-clients.ts);
 * 4. the queue drains; or, where the config asks for it, waiting longer is of no use (eager-close.ts).
 * Else it waits until that time is over. A client's own batch is never split.
 *
 * Whoever's time in the queue is over is seen to first, at that time and not when an instance comes
 * free: it is refused, or stands back. Once dispatched no time-out applies any more.
 *
 * Background requests wait apart, and nothing of the above looks at them. Where `fills` is set and no strategy says who
 * goes together, they get the rows that a batch has left once it goes, as long as that hardly slows it (fill-rule.ts). Batches of their own go to instances that run
 * nothing, of which one is left to those who wait.
 *
 * Unlike Triton, a batch never grows past the largest preferred size while instances are busy, and
 * without a delay an instance waits for a moment where that fills its batch.
 */
export function createDynamicScheduler<R extends QueuedRequest = QueuedRequest>(
  options: DynamicBatcherOptions<R>,
): Scheduler<R> {
  const fitting = options.preferred.filter((size) => size >= 1 && size <= options.rows_max);
  const rowsWanted = fitting.length === 0 ? options.rows_max : Math.max(...fitting);
  const waits = createQueueAndPlaces<R>(options);
  const { queue, background, instances } = waits;
  const fill = options.fills === true && options.strategy === undefined ? createFillRule() : undefined;
  const sizes = { rows_wanted: rowsWanted, preferred: new Set(fitting) };
  const forming = createFormingBatch(queue, sizes, options.strategy);
  const returning = options.delay_us === 0 ? createReturningClients() : undefined;
  const eager = options.eager === true && options.delay_us > 0 ? createEagerClose(options.delay_us) : undefined;
  const tellsLevels = hasLevels(options.policies);
  const isTimed = hasTimeouts(options.policies);
  let draining = false;
  /** The wake that the caller knows of, infinite for none. */
  let wishedUs = Number.POSITIVE_INFINITY;

  /** What becomes of the batch that is formed, which an instance could take; `following`: another goes in the same step. */
  const judge = (nowUs: number, following: boolean): Verdict => {
    const dueUs = forming.oldestUs + options.delay_us;
    const expired = options.delay_us > 0 && nowUs >= dueUs;
    if (forming.preferredCount > 0 && !expired)
      return { type: 'send', count: forming.preferredCount, reason: 'preferred' };
    if (forming.closed !== undefined) return { type: 'send', count: forming.count, reason: forming.closed };
    if (expired) return { type: 'send', count: forming.count, reason: 'delay' };
    if (draining) return { type: 'send', count: forming.count, reason: 'drain' };
    if (returning !== undefined) {
      const untilUs = returning.holdUntilUs(nowUs);
      return untilUs === undefined ? { type: 'send', count: forming.count, reason: 'free' } : { type: 'wait', untilUs };
    }
    if (eager === undefined) return { type: 'wait', untilUs: dueUs };
    const only = forming.count === queue.length && !following;
    const verdict = eager.verdict({ answerByUs: forming.answerByUs, only }, nowUs);
    if (verdict.type === 'send') return { ...verdict, count: forming.count };
    return { type: 'wait', untilUs: Math.min(dueUs, verdict.untilUs) };
  };

  /** What an event says of others who may come. */
  const hear = (event: ScheduleEvent<R>, nowUs: number) => {
    switch (event.type) {
      case 'arrived':
        returning?.arrived(nowUs);
        eager?.arrived(event.request, nowUs);
        break;
      case 'answered':
        returning?.answered(event.requests, event.runUs, nowUs);
        eager?.answered(event.requests, nowUs);
        break;
      case 'running':
        eager?.running(event.requests, event.times);
        break;
      case 'ran':
        fill?.ran(event.rows, event.runUs);
        break;
      case 'draining':
        draining = true;
        break;
    }
  };

  const take = (count: number): R[] => {
    const batch: R[] = [];
    while (batch.length < count) {
      const request = queue.shift();
      if (request === undefined) break;
      batch.push(request);
    }
    forming.reset();
    returning?.batchGone();
    return batch;
  };

  /** Whom an instance gets; when the batch that still waits is to be looked at again, infinite for never. */
  const dispatch = (nowUs: number, decisions: Decision<R>[]): number => {
    for (let sent = 0; instances.free > 0; sent++) {
      forming.extend();
      if (forming.count === 0) {
        returning?.batchGone();
        break;
      }
      if (forming.closed === undefined && instances.mostFree <= options.places_ahead) break;
      const verdict = judge(nowUs, sent > 0);
      if (verdict.type === 'wait') return verdict.untilUs;
      const instance = instances.take(queue.head?.request.near);
      if (instance === undefined) break;
      const taken = take(verdict.count);
      const batch = fill === undefined ? taken : filled(taken, fill);
      decisions.push({ type: 'dispatch', instance, batch, reason: verdict.reason });
    }
    return Number.POSITIVE_INFINITY;
  };

  const filled = (batch: readonly R[], { rowsMax }: FillRule): readonly R[] => {
    const rows = batch.reduce((sum, request) => sum + request.rows, 0);
    if (background.length === 0 || rows >= rowsWanted) return batch;
    return background.filled(batch, rowsMax(rows, rowsWanted));
  };

  const spare = ({ instance, others }: Extract<ScheduleEvent<R>, { type: 'instance-spare' }>): Decision<R>[] => {
    if (background.length === 0 || (queue.length > 0 && others === 0) || !instances.takeOf(instance)) return [];
    return [{ type: 'dispatch', instance, batch: background.form(rowsWanted, options.strategy), reason: 'spare' }];
  };

  const refuseExpired = (nowUs: number, decisions: Decision<R>[]) => {
    if (!isTimed || queue.nextExpiryUs > nowUs) return;
    for (const request of queue.expire(nowUs)) decisions.push({ type: 'reject', request, error: QUEUE_TIMEOUT });
  };

  return {
    wants: {
      answered: returning !== undefined || eager !== undefined,
      running: eager !== undefined,
      get ran() {
        return fill !== undefined && background.length > 0;
      },
    },
    get waiting() {
      return queue.length;
    },
    get background() {
      return background.length;
    },
    get levels() {
      return tellsLevels ? queue.levels() : NO_LEVELS;
    },
    step(event, nowUs) {
      if (event.type === 'instance-spare') return spare(event);
      const decisions: Decision<R>[] = [];
      if (decidesNothing(event)) {
        const refusal = waits.take(event);
        if (event.type !== 'arrived') hear(event, nowUs);
        return refusal === undefined ? decisions : [refusal];
      }
      if (event.type === 'time') wishedUs = Number.POSITIVE_INFINITY;
      // Before it comes in, since they no longer take up room.
      refuseExpired(nowUs, decisions);
      const refusal = waits.take(event);
      hear(event, nowUs);
      if (refusal === undefined) refuseExpired(nowUs, decisions);
      else decisions.push(refusal);
      const lookUs = dispatch(nowUs, decisions);
      const untilUs = isTimed ? Math.min(lookUs, queue.nextExpiryUs) : lookUs;
      // A wake that comes too early finds nothing to do and asks for the next: cheaper than to move it each time.
      if (untilUs < wishedUs) {
        wishedUs = untilUs;
        decisions.push({ type: 'wake', atUs: untilUs });
      }
      // The caller may have dropped its timer then, so the next wish is told anew.
      if (queue.length === 0) wishedUs = Number.POSITIVE_INFINITY;
      return decisions;
    },
  };
}
