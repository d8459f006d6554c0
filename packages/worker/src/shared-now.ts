/**
 * Nanoseconds on the monotonic clock that all threads of the process share; `performance.now()`
 * counts from each thread's own start. Only differences of it mean anything.
 */
export function sharedNowNs(): number {
  return Number(process.hrtime.bigint());
}
