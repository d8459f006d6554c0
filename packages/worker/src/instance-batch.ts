import type { BatchTiming, ErrorInfo, InferRequest, ResponseTimes } from '@nereid/protocol';
import type { RunOutcome, StreamChunk } from './instance-messages.ts';
import { sharedNowNs } from './shared-now.ts';

/** What became of a batch. */
export interface BatchSettlement {
  /** False where the batch never reached the model. */
  readonly executed: boolean;
  readonly timing: BatchTiming;
  /** One per request, in order. */
  readonly outcomes: readonly RunOutcome[];
  /**
   * The outcomes are no answers of the model: its carrier ended with the batch, or it had none for it. What that means
   * for a step of a sequence, see StepEnd.
   */
  readonly lost?: 'lost' | 'unseen' | undefined;
  /** Of a batch without sequences: positions of the requests whose carrier ended while it ran them, and that ran no more. */
  readonly died?: ReadonlySet<number>;
  /** Of answers that came as chunks. */
  readonly responses?: ResponseTimes | undefined;
}

/** A batch given to an instance; it is settled exactly once. */
export interface InstanceBatch {
  /** The owner's number of the batch. */
  readonly batch: number;
  readonly requests: readonly InferRequest[];
  /** Of their messages, by which calls name the request that they are made for. */
  readonly ids?: readonly string[];
  /** Of steps of sequences: the slot of each. */
  readonly slots?: readonly number[] | undefined;
  /** `sharedNowNs` when the worker got it. */
  readonly receivedNs: number;
  /** Positions of the requests that nobody waits for any more, once there are some. */
  cancelled: Set<number> | undefined;
  /** Positions of the requests of which an answer is out before the batch is over, once there are some. */
  begun?: Set<number>;
  /** One request of a batch that was lost, which runs by itself once. */
  readonly isRetry?: true;
  /** Once the batch was lost: those of its requests that run again, by their position. */
  retries?: ReadonlyMap<number, InstanceBatch>;
  /** An answer that comes before the batch is over. */
  readonly chunk?: (chunk: StreamChunk) => void;
  settle(settlement: BatchSettlement): void;
}

/** True where nobody waits for any of its requests. */
export function isAbandoned(batch: InstanceBatch): boolean {
  return batch.cancelled?.size === batch.requests.length;
}

/** Settles all of a batch's requests with one error. */
export function failBatch(
  batch: InstanceBatch,
  executed: boolean,
  error: ErrorInfo,
  lost?: BatchSettlement['lost'],
): void {
  const timing = { waitNs: sharedNowNs() - batch.receivedNs, inputNs: 0, inferNs: 0, outputNs: 0 };
  batch.settle({ executed, timing, outcomes: batch.requests.map((): RunOutcome => ({ ok: false, error })), lost });
}
