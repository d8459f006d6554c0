import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createLineLimit, LINES_PER_SECOND_MAX } from './line-limit.ts';

test('of more lines in a second than may be, the rest is counted, before the next line or at the end', () => {
  const clock = virtualClock();
  const passed: string[] = [];
  const limit = createLineLimit(clock, (line) => passed.push(line));
  for (let i = 0; i < LINES_PER_SECOND_MAX + 7; i++) limit.take('a');
  clock.advanceUs(999_999);
  limit.take('a');
  expect(passed).toEqual(new Array(LINES_PER_SECOND_MAX).fill('a'));
  clock.advanceUs(1);
  limit.take('b');
  expect(passed.slice(LINES_PER_SECOND_MAX)).toEqual(['8 more lines were left out', 'b']);
  limit.end();
  expect(passed.at(-1)).toBe('b');
  for (let i = 0; i < LINES_PER_SECOND_MAX; i++) limit.take('b');
  limit.end();
  limit.end();
  expect(passed.slice(2 * LINES_PER_SECOND_MAX)).toEqual(['b', '1 more lines were left out']);
});
