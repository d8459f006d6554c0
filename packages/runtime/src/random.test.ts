import { expect, test } from 'vitest';
import { newProcessId, seededRandom } from './random.ts';

test('a seed gives the same numbers, in [0, 1), spread evenly', () => {
  const [one, other] = [seededRandom(42), seededRandom(42)];
  const numbers = Array.from({ length: 10_000 }, () => one.next());
  expect(numbers).toEqual(Array.from({ length: 10_000 }, () => other.next()));
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...numbers)).toBeLessThan(1);
  expect(numbers.reduce((sum, number) => sum + number, 0) / numbers.length).toBeCloseTo(0.5, 1);
});

test('process ids are new each time', () => {
  expect(newProcessId('gw')).toMatch(/^gw-[0-9a-f]{12}$/);
  expect(newProcessId('gw')).not.toBe(newProcessId('gw'));
});
