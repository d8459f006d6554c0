import type { ReadySteps } from './ready-steps.ts';
import type { CloseReason, QueuedRequest } from './schedule.ts';

export interface DirectOptions {
  /** Slots of an instance: its max_batch_size, at least 1. */
  readonly slots: number;
  /** max_queue_delay_microseconds; nobody is waited for that long unless `utilization_min` is set. */
  readonly delay_us: number;
  /** minimum_slot_utilization, 0 to 1. */
  readonly utilization_min: number;
}

/**
 * The direct strategy (sequence_batch_scheduler.cc): a sequence's slot is its row in each batch of its instance, so a
 * batch is whatever the slots have ready, one step of each, and the rows between are padded where it runs.
 *
 * The step that may go for longest goes in any case, with all that have its shape; others wait for the next batch. They
 * go at once, unless a minimum utilization and a delay are set: then once that share of the slots has a step to go,
 * of whatever shape, or one of them has waited for the delay. Without a delay that is over at once, so the utilization
 * alone holds nothing up.
 */
export function createDirectSteps<R extends QueuedRequest>(options: DirectOptions): ReadySteps<R> {
  /** In the order in which they may go. */
  const bySlot = new Map<number, R>();
  let lookUs = Number.POSITIVE_INFINITY;

  const oldestUs = (): number => {
    let earliestUs = Number.POSITIVE_INFINITY;
    for (const { arrivedUs } of bySlot.values()) earliestUs = Math.min(earliestUs, arrivedUs);
    return earliestUs;
  };

  /** Why a batch of so many of those that are ready goes, if it does. */
  const verdict = (count: number, dueUs: number, nowUs: number, draining: boolean): CloseReason | undefined => {
    if (count >= options.slots) return 'full';
    if (options.utilization_min > 0 && options.delay_us > 0) {
      if (bySlot.size / options.slots >= options.utilization_min) return 'preferred';
      if (nowUs >= dueUs) return 'delay';
      return draining ? 'drain' : undefined;
    }
    return count < bySlot.size ? 'shape' : 'free';
  };

  return {
    add(step, slot) {
      bySlot.set(slot, step);
    },
    remove(_step, slot) {
      bySlot.delete(slot);
      if (bySlot.size === 0) lookUs = Number.POSITIVE_INFINITY;
    },
    next(nowUs, draining) {
      lookUs = Number.POSITIVE_INFINITY;
      const [first] = bySlot.values();
      if (first === undefined) return undefined;
      const going = [...bySlot].filter(([, { shapeKey }]) => shapeKey === first.shapeKey).sort(([a], [b]) => a - b);
      const dueUs = oldestUs() + options.delay_us;
      const reason = verdict(going.length, dueUs, nowUs, draining);
      if (reason === undefined) {
        lookUs = dueUs;
        return undefined;
      }
      for (const [slot] of going) bySlot.delete(slot);
      return { batch: going.map(([, step]) => step), slots: going.map(([slot]) => slot), reason };
    },
    get lookUs() {
      return lookUs;
    },
    lost() {
      lookUs = Number.POSITIVE_INFINITY;
    },
    answered() {},
  };
}
