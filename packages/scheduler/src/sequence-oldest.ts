import { createDynamicScheduler } from './dynamic-batcher.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { ReadySteps } from './ready-steps.ts';
import type { CloseReason, Decision, QueuedRequest, ScheduleEvent } from './schedule.ts';

export interface OldestOptions {
  /** The model's max_batch_size, at least 1. */
  readonly rows_max: number;
  /** preferred_batch_size; empty means as many as fit. */
  readonly preferred: readonly number[];
  /** max_queue_delay_microseconds. */
  readonly delay_us: number;
}

/** A step as the batcher of its instance sees it: it arrives when it may go. */
interface ReadyStep<R extends QueuedRequest> extends QueuedRequest {
  readonly step: R;
  readonly slot: number;
}

/** The batcher has one instance, whatever its name. */
const INSTANCE = '';

/**
 * The oldest strategy (sequence_batch_scheduler.cc): each instance has a dynamic batcher of its own, to which the steps
 * of its sequences come one by one, each when the one before is over. So a batch is made of those that may go for
 * longest, preferred sizes and the delay count from then, and a sequence that sent many steps holds nobody up.
 */
export function createOldestSteps<R extends QueuedRequest>(options: OldestOptions): ReadySteps<R> {
  const batcher = createDynamicScheduler<ReadyStep<R>>({
    ...options,
    places_ahead: 0,
    // The scheduler of all instances bounds what waits.
    queue_max: Number.POSITIVE_INFINITY,
    policies: NO_POLICIES,
  });
  /** The batcher knows that the instance is free. */
  let offered = false;
  let drains = false;
  /** A batch of the batcher's that is not out yet. */
  let made: { readonly batch: readonly ReadyStep<R>[]; readonly reason: CloseReason } | undefined;
  let lookUs = Number.POSITIVE_INFINITY;

  const take = (decision: Decision<ReadyStep<R>>) => {
    if (decision.type === 'wake') lookUs = decision.atUs;
    if (decision.type !== 'dispatch') return;
    offered = false;
    made = decision;
  };

  const tell = (event: ScheduleEvent<ReadyStep<R>>, nowUs: number) => {
    for (const decision of batcher.step(event, nowUs)) take(decision);
    if (batcher.waiting === 0) lookUs = Number.POSITIVE_INFINITY;
  };

  /** One of its steps leaves before it is out. */
  const takeApart = (nowUs: number) => {
    const { batch = [] } = made ?? {};
    made = undefined;
    for (const request of [...batch].reverse()) tell({ type: 'returned', request }, nowUs);
  };

  return {
    add(step, slot, returned, nowUs) {
      const { id, rows, shapeKey, sender } = step;
      const request: ReadyStep<R> = {
        id,
        rows,
        shapeKey,
        arrivedUs: nowUs,
        priority: 0,
        timeoutUs: 0,
        deadlineUs: undefined,
        patient: false,
        sender,
        coming: 0,
        sequence: undefined,
        step,
        slot,
      };
      tell({ type: returned ? 'returned' : 'arrived', request }, nowUs);
    },
    remove({ id }, _slot, nowUs) {
      takeApart(nowUs);
      tell({ type: 'cancelled', id }, nowUs);
    },
    next(nowUs, draining) {
      if (draining && !drains) {
        drains = true;
        tell({ type: 'draining' }, nowUs);
      }
      if (made === undefined && (offered || nowUs >= lookUs)) {
        lookUs = Number.POSITIVE_INFINITY;
        tell({ type: 'time' }, nowUs);
      }
      if (made === undefined && !offered) {
        offered = true;
        tell({ type: 'instance-free', instance: INSTANCE }, nowUs);
      }
      if (made === undefined) return undefined;
      const { batch, reason } = made;
      made = undefined;
      return { batch: batch.map(({ step }) => step), slots: batch.map(({ slot }) => slot), reason };
    },
    get lookUs() {
      return lookUs;
    },
    lost(nowUs) {
      offered = false;
      tell({ type: 'instance-lost', instance: INSTANCE }, nowUs);
    },
    answered(requests, runUs, nowUs) {
      tell({ type: 'answered', requests, runUs }, nowUs);
    },
  };
}
