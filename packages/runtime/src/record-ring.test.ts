import { expect, test } from 'vitest';
import { createRecordRing } from './record-ring.ts';

interface Note {
  number: number;
}

/** Every tenth is kept for longer. */
function noted(count: number) {
  let made = 0;
  const ring = createRecordRing<Note>({
    make: () => {
      made++;
      return { number: 0 };
    },
    recent_max: 4,
    kept_max: 2,
    isKept: ({ number }) => number % 10 === 0,
  });
  for (let number = 1; number <= count; number++) ring.next().number = number;
  return { made: () => made, numbers: () => [...ring.newest()].map(({ number }) => number) };
}

test.each([
  ['is empty', 0, []],
  ['has room', 3, [3, 2, 1]],
  ['is full', 4, [4, 3, 2, 1]],
  ['has dropped some', 9, [9, 8, 7, 6]],
  ['has kept one', 16, [16, 15, 14, 13, 10]],
  ['has kept the last two', 38, [38, 37, 36, 35, 30, 20]],
])('the newest first where it %s', (_, count, expected) => {
  expect(noted(count).numbers()).toEqual(expected);
});

test('no record is made once both rings are full', () => {
  const { made } = noted(500);
  expect(made()).toBe(6);
});
