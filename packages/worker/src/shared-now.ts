/**
 * Nanoseconds on the monotonic clock that all threads and processes of a machine share;
 * `performance.now()` counts from each one's own start. Only differences of it mean anything.
 */
export function sharedNowNs(): number {
  return Number(process.hrtime.bigint());
}
