import { expect, test } from 'vitest';
import { instanceDepth, nextMeanTimes } from './instance-depth.ts';

test.each([
  ['dynamic batching, whatever the model takes', 'batches', { runUs: 10, wayUs: 2_000 }, 2],
  ['priorities, time-outs or bounds of the queue', 'exact', { runUs: 10, wayUs: 2_000 }, 1],
  ['sequences, whatever the model takes', 'sequences', { runUs: 10, wayUs: 2_000 }, 1],
  ['streams, whatever the model takes', 'streams', { runUs: 10, wayUs: 2_000 }, 1],
  ['resources of the rate limiter, whatever the model takes', 'limited', { runUs: 10, wayUs: 2_000 }, 2],
  ['no batch yet', 'single', undefined, 2],
  ['a model of 10 us', 'single', { runUs: 10, wayUs: 0 }, 50],
  ['a model of 50 us', 'single', { runUs: 50, wayUs: 0 }, 10],
  ['a model of 200 us', 'single', { runUs: 200, wayUs: 0 }, 2],
  ['a model of 2 s', 'single', { runUs: 2_000_000, wayUs: 0 }, 2],
  ['a clock that stood still', 'single', { runUs: 0, wayUs: 100 }, 2],
  ['on its way for 1 ms, as through Redis', 'single', { runUs: 50, wayUs: 1_000 }, 30],
  ['never more than the most', 'single', { runUs: 10, wayUs: 1_000 }, 64],
  ['a way of 1 s counts as 2 ms', 'single', { runUs: 250, wayUs: 1_000_000 }, 10],
  ['clocks that differ', 'single', { runUs: 50, wayUs: -1_000 }, 10],
] as const)('%s', (_, kind, times, depth) => {
  expect(instanceDepth(kind, times)).toBe(depth);
});

test('the means follow, and one outlier hardly moves the depth', () => {
  let means = nextMeanTimes(undefined, { runUs: 20, wayUs: 100 });
  expect(means).toEqual({ runUs: 20, wayUs: 100 });
  means = nextMeanTimes(means, { runUs: 180, wayUs: 900 });
  expect(means).toEqual({ runUs: 40, wayUs: 200 });
  for (let i = 0; i < 50; i++) means = nextMeanTimes(means, { runUs: 100, wayUs: 0 });
  expect(means.runUs).toBeCloseTo(100, 0);
  expect(means.wayUs).toBeCloseTo(0, 0);
});
