/** What a caller tells the owner of a model whose answers it keeps (docs/caching.md). */
import type { ModelMessage } from './message.ts';

/**
 * How often something was, and how long it took in all. The microseconds are the sum of the addends each cut to whole
 * ones, as Triton cuts those of its metrics.
 */
export interface CachedTime {
  readonly ns: number;
  readonly us: number;
}

/**
 * caller → owner: requests that were answered without a run, and those that were answered by one for want of a kept
 * answer, since the last such message. One that is lost costs only these counts.
 */
export interface CachedMessage extends ModelMessage {
  readonly kind: 'cached';
  readonly version: string;
  readonly hits: number;
  /** Of the hits, from their arrival at the caller to their answer. */
  readonly hitRequest: CachedTime;
  /** Of the hits that waited for an equal request to be answered: how long. */
  readonly hitQueue: CachedTime;
  /** Of the hits, the look-up alone. */
  readonly hitLookup: CachedTime;
  readonly misses: number;
  /** Of the misses, look-up and insertion. */
  readonly miss: CachedTime;
}
