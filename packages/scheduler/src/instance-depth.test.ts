import { expect, test } from 'vitest';
import { instanceDepth, nextMeanRunUs } from './instance-depth.ts';

test.each([
  ['dynamic batching, whatever the model takes', true, 10, 1],
  ['no batch yet', false, undefined, 2],
  ['a model of 10 us', false, 10, 16],
  ['a model of 50 us', false, 50, 10],
  ['a model of 200 us', false, 200, 2],
  ['a model of 2 s', false, 2_000_000, 2],
  ['a clock that stood still', false, 0, 2],
])('%s', (_, batching, meanRunUs, depth) => {
  expect(instanceDepth(batching, meanRunUs)).toBe(depth);
});

test('the mean follows, and one outlier hardly moves the depth', () => {
  let mean = nextMeanRunUs(undefined, 20);
  expect(mean).toBe(20);
  mean = nextMeanRunUs(mean, 180);
  expect(mean).toBe(40);
  for (let i = 0; i < 50; i++) mean = nextMeanRunUs(mean, 100);
  expect(mean).toBeCloseTo(100, 0);
});
