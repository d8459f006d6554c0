import type { Clock, Timer } from '@nereid/runtime';

/** What the promise gives; rejects where that takes longer. */
export async function answeredWithin<T>(clock: Clock, us: number, answer: Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = clock.at(clock.nowUs() + us, () => reject(new Error('no answer in time')));
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    timer?.cancel();
  }
}
