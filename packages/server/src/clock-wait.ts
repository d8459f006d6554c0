import type { Clock } from '@nereid/runtime';

/** Resolves after `ms`, or as soon as the signal is aborted. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      timer.cancel();
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = clock.at(clock.nowUs() + ms * 1000, finish);
    signal?.addEventListener('abort', finish);
    if (signal?.aborted === true) finish();
  });
}

/** True where the promise settled by itself within `ms`. */
export async function settledWithin(promise: Promise<unknown>, ms: number, clock: Clock): Promise<boolean> {
  const over = new AbortController();
  const settled = promise.then(
    () => true,
    () => true,
  );
  const first = await Promise.race([settled, pause(clock, ms, over.signal).then(() => false)]);
  over.abort();
  return first;
}
