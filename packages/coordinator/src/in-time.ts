import type { Clock } from '@nereid/runtime';

/** What the promise comes to, or a rejection where that takes longer; it goes on in any case. */
export async function inTime<T>(clock: Clock, ms: number, promise: Promise<T>, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.at(clock.nowUs() + ms * 1000, () => reject(late()));
    promise.finally(() => timer.cancel()).then(resolve, reject);
  });
}
