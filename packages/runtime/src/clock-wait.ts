import type { Clock, Timer } from './clock.ts';

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

/** What the promise gives; rejects where that takes longer. */
export async function answeredWithin<T>(answer: Promise<T>, ms: number, clock: Clock): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = clock.at(clock.nowUs() + ms * 1000, () => reject(new Error('no answer in time')));
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    timer?.cancel();
  }
}
