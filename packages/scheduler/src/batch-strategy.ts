import type { QueuedRequest } from './schedule.ts';

/**
 * A model's own rule for what goes together (Triton's custom batching, docs/user_guide/custom_batching).
 * A call begins a batch. It is made once that batch's first request is known.
 */
export type BatchStrategy<R extends QueuedRequest = QueuedRequest> = () => StrategyBatch<R>;

/** One batch as the strategy sees it. */
export interface StrategyBatch<R extends QueuedRequest = QueuedRequest> {
  /**
   * Whether the request joins. Asked in the order of the queue, once for each that all other rules would
   * take. False closes the batch before it; the first one, which nothing is before, then goes alone.
   */
  include(request: R): boolean;
  /** The batch was sent, or is given up to be formed anew. Called once, last. */
  end(): void;
}
