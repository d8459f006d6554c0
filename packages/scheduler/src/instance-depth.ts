/** Work that may wait in front of an instance, behind the batch that it runs. */
const AHEAD_US = 500;
const DEPTH_MIN = 2;
/** No instance ever holds more batches. */
export const INSTANCE_DEPTH_MAX = 16;

/**
 * How many batches an instance holds at a time, running and waiting in its worker, by what a batch
 * takes on average.
 *
 * With `waitsHere` one: with dynamic batching what waits in the queue can still be batched, and behind
 * a stream of answers it could wait without an end. Without it there is nothing to
 * gain by waiting here but the choice of instance and a late cancel, and an instance that must wait
 * for the next message idles for longer than a small model runs. So an instance holds the work of
 * about half a millisecond: many batches of a model that runs in microseconds, two of any other.
 * `meanRunUs` is undefined before the first batch.
 */
export function instanceDepth(waitsHere: boolean, meanRunUs: number | undefined): number {
  if (waitsHere) return 1;
  if (meanRunUs === undefined || meanRunUs <= 0) return DEPTH_MIN;
  return Math.min(INSTANCE_DEPTH_MAX, Math.max(DEPTH_MIN, Math.floor(AHEAD_US / meanRunUs)));
}

/** The mean moves by an eighth of each difference, so that one slow batch does not set the depth. */
const WEIGHT = 1 / 8;

/** The next mean after a batch that took so long. */
export function nextMeanRunUs(meanRunUs: number | undefined, runUs: number): number {
  return meanRunUs === undefined ? runUs : meanRunUs + (runUs - meanRunUs) * WEIGHT;
}
