import { expect, test } from 'vitest';
import { CLOSE_REASONS, type CloseCounts, closeStatistics, countClose } from './close-counts.ts';

test('batches are counted by why they were closed and by their rows, and told in the order of both', () => {
  const closes: CloseCounts = new Map();
  countClose(closes, 'drain', 3);
  countClose(closes, 'full', 8);
  countClose(closes, 'full', 2);
  countClose(closes, 'full', 8, 4);
  expect(closeStatistics(closes)).toEqual([
    {
      reason: 'full',
      sizes: [
        { rows: 2, count: 1 },
        { rows: 8, count: 5 },
      ],
    },
    { reason: 'drain', sizes: [{ rows: 3, count: 1 }] },
  ]);
});

test('every reason is told', () => {
  const closes: CloseCounts = new Map();
  for (const reason of CLOSE_REASONS) countClose(closes, reason, 1);
  expect(closeStatistics(closes).map(({ reason }) => reason)).toEqual(CLOSE_REASONS);
});
