import { expect, test } from 'vitest';
import { createComingRequests } from './coming-requests.ts';

test('those that have begun to come are counted by model, each until it is there or gone', () => {
  const coming = createComingRequests();
  const ends = [coming.begin('m'), coming.begin('m'), coming.begin('n')];
  expect([coming.of('m'), coming.of('n'), coming.of('x')]).toEqual([2, 1, 0]);
  ends[0]?.();
  ends[0]?.();
  expect(coming.of('m')).toBe(1);
  ends[1]?.();
  ends[2]?.();
  expect([coming.of('m'), coming.of('n')]).toEqual([0, 0]);
});
