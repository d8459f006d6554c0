import type { CloseReason, QueuedRequest } from './schedule.ts';

/** Of one instance: a batch, with the slot of each step. */
export interface StepBatch<R extends QueuedRequest> {
  readonly batch: readonly R[];
  readonly slots: readonly number[];
  readonly reason: CloseReason;
}

/**
 * The steps of one instance that may go, of each of its slots one at most, and how a strategy makes batches of them:
 * sequence-direct.ts and sequence-oldest.ts.
 */
export interface ReadySteps<R extends QueuedRequest> {
  /** `returned`: its batch was lost before it ran. */
  add(step: R, slot: number, returned: boolean, nowUs: number): void;
  remove(step: R, slot: number, nowUs: number): void;
  /** What the instance, which is free, is given now; its steps leave. `draining`: nobody is waited for. */
  next(nowUs: number, draining: boolean): StepBatch<R> | undefined;
  /** When `next` is to be asked again though nothing has happened, if the instance is still free; infinite for never. */
  readonly lookUs: number;
  /** The instance is not there any more; steps stay. */
  lost(nowUs: number): void;
  /** So many of its steps have been answered, which ran for so long. */
  answered(steps: number, runUs: number, nowUs: number): void;
}
