/**
 * How much longer than it says a time may be: tests of `npm test` share two cores with others. NEREID_EXACT_TIMES=true
 * takes each time as it is (docs/testing.md).
 */
const TIMES_FACTOR = process.env.NEREID_EXACT_TIMES === 'true' ? 1 : 5;

/** Whether what takes long is run for as long as it says. */
export const EXACT_TIMES = TIMES_FACTOR === 1;

/** The longest that something may take that is to take so many milliseconds. */
export function limitMs(ms: number): number {
  return ms * TIMES_FACTOR;
}

/** The greatest that a ratio of times may be. */
export function limitRatio(ratio: number): number {
  return ratio * TIMES_FACTOR;
}
