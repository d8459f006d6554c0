/**
 * The contract of every scheduling rule: a pure step over (state, event, time).
 * A state is made by its rule's factory, owned by one caller and changed only by `step`; no rule
 * reads a clock, a socket or a random number. Times are microseconds of a monotonic clock.
 */
import type { ErrorInfo } from '@nereid/protocol';

/** A request as the rules see it. */
export interface QueuedRequest {
  readonly id: string;
  /** Batch dimension, at least 1. */
  readonly rows: number;
  /** Equal for requests whose variable dimensions let them share a batch. */
  readonly shapeKey: string;
  readonly arrivedUs: number;
}

/** An instance as the rules see it: `${worker}/${index}`. */
export type InstanceKey = string;

export type ScheduleEvent<R extends QueuedRequest = QueuedRequest> =
  | { readonly type: 'arrived'; readonly request: R }
  /** A request that is no longer wanted; unknown ids are ignored (it may be executing). */
  | { readonly type: 'cancelled'; readonly id: string }
  /** The instance can take one more batch. */
  | { readonly type: 'instance-free'; readonly instance: InstanceKey }
  /** Forget the instance and all its free places. */
  | { readonly type: 'instance-lost'; readonly instance: InstanceKey }
  | { readonly type: 'time' };

/** Why a batch was closed; a metric label later on. */
export type CloseReason = 'single' | 'full' | 'preferred' | 'delay' | 'shape' | 'free';

export type Decision<R extends QueuedRequest = QueuedRequest> =
  | {
      readonly type: 'dispatch';
      readonly instance: InstanceKey;
      readonly batch: readonly R[];
      readonly reason: CloseReason;
    }
  | { readonly type: 'reject'; readonly request: R; readonly error: ErrorInfo }
  /** Send a `time` event at that time; replaces an earlier wish, and is void once nothing waits. */
  | { readonly type: 'wake'; readonly atUs: number };

export interface Scheduler<R extends QueuedRequest = QueuedRequest> {
  step(event: ScheduleEvent<R>, nowUs: number): readonly Decision<R>[];
  /** Requests queued and not yet dispatched. */
  readonly waiting: number;
}
