import { parseModelConfig } from '@nereid/config';
import { expect, test } from 'vitest';
import { waitingAhead } from './waiting-ahead.ts';

const config = (rest: string) => parseModelConfig(`name: "m" backend: "javascript" ${rest}`, 'config.pbtxt');
const LEVELS = config('max_batch_size: 4 dynamic_batching { priority_levels: 3 default_priority_level: 2 }');
const waiting = [
  { level: 1, waiting: 4, delayed: 3 },
  { level: 2, waiting: 5, delayed: 1 },
  { level: 3, waiting: 7, delayed: 0 },
];

test.each([
  ['the highest: but those of its level that are delayed', 1, 1],
  ['a middle one', 2, 8],
  ['none, which is the default', 0, 8],
  ['one that there is not', 9, 8],
  ['the lowest', 3, 16],
])('a request of a level has before it what is in higher ones and in its own: %s', (_, priority, ahead) => {
  expect(waitingAhead(LEVELS)({ priority }, 16, waiting)).toBe(ahead);
});

test('without levels all that waits is before it', () => {
  expect(waitingAhead(config(''))({ priority: 1 }, 7, undefined)).toBe(7);
});

test('of very many levels not all are looked at', () => {
  let looks = 0;
  function* many() {
    for (let level = 1; level <= 10_000; level++) {
      looks++;
      yield { level, waiting: 1, delayed: 0 };
    }
  }
  const many_levels = config('max_batch_size: 4 dynamic_batching { priority_levels: 20000 default_priority_level: 1 }');
  expect(waitingAhead(many_levels)({ priority: 9_000 }, 10_000, many())).toBe(10_000);
  expect(looks).toBeLessThan(100);
});
