/** Work that may wait in front of an instance, behind the batch that it runs, where batches reach it at once. */
const AHEAD_US = 500;
/** A longer way to an instance and back counts as this: what is under way can no longer be chosen for. */
const WAY_US_MAX = 2_000;
const DEPTH_MIN = 2;
/** One that it runs, and one that cannot grow any more. */
const DEPTH_BATCHING = 2;
/** One that runs or waits for its resources, and the next, which the rate limiter must find when that one ends. */
const DEPTH_LIMITED = 2;
/** No instance ever holds more batches. */
export const INSTANCE_DEPTH_MAX = 64;

/** What a batch takes, or batches take on average. */
export interface BatchTimes {
  readonly runUs: number;
  /** From here to the worker and back, without what it waits and runs there. */
  readonly wayUs: number;
}

/** `limited`: as `single`, and it waits for resources of the rate limiter. `exact`: see `instanceDepth`. */
export type ExecutionKind = 'single' | 'limited' | 'batches' | 'exact' | 'streams' | 'sequences';

/**
 * How many batches an instance holds at a time, running and waiting in its worker, by what a batch
 * takes on average.
 *
 * A model of streams one: behind a stream a batch could wait without an end. One with priorities, queue
 * time-outs or bounds of its queue one too: they are exact only for what still waits here. One of sequences too: the
 * next steps of those that run may go into the next batch. Else with dynamic batching two,
 * of which the scheduler gives the second only to a batch that cannot grow: others wait in the queue,
 * where they can. Else there is nothing to gain by waiting here but the choice of instance and a late
 * cancel, and an instance that must wait for the next message idles for longer than a small model
 * runs. So an instance holds the work of about half a millisecond and of the time that a batch is on
 * its way: many batches of a model that runs in microseconds, more where it is in another process,
 * two of a model that takes longer. One that waits for resources of the rate limiter (`limited`, without
 * dynamic batching) two: with one the next batch would always come too late for its turn, and
 * priorities would count for nothing; more would only wait at an instance that others may overtake.
 * `times` is undefined before the first batch.
 */
export function instanceDepth(kind: ExecutionKind, times: BatchTimes | undefined): number {
  if (kind === 'streams' || kind === 'exact' || kind === 'sequences') return 1;
  if (kind === 'batches') return DEPTH_BATCHING;
  if (kind === 'limited') return DEPTH_LIMITED;
  if (times === undefined || times.runUs <= 0) return DEPTH_MIN;
  const aheadUs = AHEAD_US + Math.min(WAY_US_MAX, Math.max(0, times.wayUs));
  return Math.min(INSTANCE_DEPTH_MAX, Math.max(DEPTH_MIN, Math.floor(aheadUs / times.runUs)));
}

/** The means move by an eighth of each difference, so that one slow batch does not set the depth. */
const WEIGHT = 1 / 8;

/** The next means after a batch that took so long. */
export function nextMeanTimes(means: BatchTimes | undefined, { runUs, wayUs }: BatchTimes): BatchTimes {
  if (means === undefined) return { runUs, wayUs };
  return {
    runUs: means.runUs + (runUs - means.runUs) * WEIGHT,
    wayUs: means.wayUs + (wayUs - means.wayUs) * WEIGHT,
  };
}
