import { expect, test } from 'vitest';
import { createResponseClock } from './response-times.ts';

test('times of answers at one position are added up over the streams of a batch', () => {
  const clock = createResponseClock(7);
  clock.answered(0, 10, 1);
  clock.answered(0, 20, 2);
  clock.answered(2, 5, 3);
  clock.other(1, 'empty', 4);
  expect(clock.startNs).toBe(7);
  expect(clock.times()).toEqual({
    answers: [
      { count: 2, inferNs: 30, outputNs: 3 },
      { count: 0, inferNs: 0, outputNs: 0 },
      { count: 1, inferNs: 5, outputNs: 3 },
    ],
    others: [{ index: 1, how: 'empty', ns: 4 }],
  });
});

test('what is far on in a stream is not told, so that an endless one has a short report', () => {
  const clock = createResponseClock(0);
  for (let index = 0; index < 3_000; index++) clock.answered(index, 1, 1);
  clock.other(3_000, 'cancel', 1);
  const { answers, others } = clock.times();
  expect([answers.length, others.length]).toEqual([1_024, 0]);
});
