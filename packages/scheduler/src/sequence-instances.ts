import type { ReadySteps } from './ready-steps.ts';
import { type InstanceKey, type QueuedRequest, workerOf } from './schedule.ts';
import type { Lane } from './sequence-session.ts';
import { createSlotNumbers, type SlotNumbers } from './slot-numbers.ts';

/** An instance with the sequences that it keeps. */
export interface SequenceInstance<R extends QueuedRequest> {
  readonly key: InstanceKey;
  readonly ready: ReadySteps<R>;
  readonly numbers: SlotNumbers;
  /** By slot. */
  readonly lanes: Map<number, Lane<R>>;
  /** It is there: it was free once and has not been lost since. */
  known: boolean;
  /** Its sequences go on and no others come. */
  draining: boolean;
  /** Batches that it can take now. */
  free: number;
}

/** The instances and their slots: which is whose, and which is next. */
export interface SequenceInstances<R extends QueuedRequest> extends Iterable<SequenceInstance<R>> {
  get(key: InstanceKey): SequenceInstance<R> | undefined;
  /** As it is known, or made. */
  ensure(key: InstanceKey): SequenceInstance<R>;
  /** Gives the lane the next slot there is, of the worker that its first step is near to if others are as good; false where there is none. */
  seat(lane: Lane<R>): boolean;
  /** Gives the lane that slot, which nobody has. */
  seatAt(lane: Lane<R>, instance: SequenceInstance<R>, slot: number): void;
  /** Takes its slot from the lane. */
  leave(lane: Lane<R>): void;
  /** To be called once an instance is not there any more: it is kept while sequences have slots of it. */
  forgetUnused(instance: SequenceInstance<R>): void;
}

/** `slots`: of each instance. */
export function createSequenceInstances<R extends QueuedRequest>(
  slots: number,
  createReadySteps: () => ReadySteps<R>,
): SequenceInstances<R> {
  const instances = new Map<InstanceKey, SequenceInstance<R>>();

  const forgetUnused = (instance: SequenceInstance<R>) => {
    if (!instance.known && !instance.draining && instance.lanes.size === 0) instances.delete(instance.key);
  };

  const seatAt = (lane: Lane<R>, instance: SequenceInstance<R>, slot: number) => {
    instance.numbers.take(slot);
    instance.lanes.set(slot, lane);
    lane.slot = { instance, number: slot };
  };

  return {
    [Symbol.iterator]: () => instances.values(),
    get: (key) => instances.get(key),
    ensure(key) {
      const known = instances.get(key);
      if (known !== undefined) return known;
      const made: SequenceInstance<R> = {
        key,
        ready: createReadySteps(),
        numbers: createSlotNumbers(slots),
        lanes: new Map(),
        known: false,
        draining: false,
        free: 0,
      };
      instances.set(key, made);
      return made;
    },
    seat(lane) {
      let best: SequenceInstance<R> | undefined;
      let lowest = Number.POSITIVE_INFINITY;
      const near = lane.sessions[0]?.steps.first?.value.near;
      for (const instance of instances.values()) {
        if (!isOpen(instance)) continue;
        const slot = instance.numbers.lowestFree;
        if (slot === undefined || slot > lowest) continue;
        if (slot === lowest && best !== undefined && !isBefore(instance, best, near)) continue;
        best = instance;
        lowest = slot;
      }
      if (best === undefined) return false;
      seatAt(lane, best, lowest);
      return true;
    },
    seatAt,
    leave(lane) {
      if (lane.slot === undefined) return;
      const { instance, number } = lane.slot;
      lane.slot = undefined;
      instance.lanes.delete(number);
      instance.numbers.give(number);
      forgetUnused(instance);
    },
    forgetUnused,
  };
}

/** Of two that have the same slot to give: the near one, else the one with fewer sequences. */
function isBefore<R extends QueuedRequest>(
  instance: SequenceInstance<R>,
  best: SequenceInstance<R>,
  near: string | undefined,
): boolean {
  if (near !== undefined) {
    const isNear = workerOf(instance.key) === near;
    if (isNear !== (workerOf(best.key) === near)) return isNear;
  }
  return instance.lanes.size < best.lanes.size;
}

/** New sequences may go to it. */
export function isOpen<R extends QueuedRequest>({ known, draining }: SequenceInstance<R>): boolean {
  return known && !draining;
}
