import { expect, test } from 'vitest';
import { virtualClock } from './virtual-clock.ts';

test('timers fire in order of time, then of setting, at their own time', () => {
  const clock = virtualClock(1_000);
  const seen: [string, number][] = [];
  clock.at(3_000, () => seen.push(['late', clock.nowUs()]));
  clock.at(2_000, () => {
    seen.push(['early', clock.nowUs()]);
    clock.at(2_500, () => seen.push(['nested', clock.nowUs()]));
  });
  clock.at(2_000, () => seen.push(['twin', clock.nowUs()]));
  clock.at(9_000, () => seen.push(['never', clock.nowUs()]));
  clock.advanceUs(4_000);
  expect(seen).toEqual([
    ['early', 2_000],
    ['twin', 2_000],
    ['nested', 2_500],
    ['late', 3_000],
  ]);
  expect(clock.nowUs()).toBe(5_000);
  expect(clock.liveTimers).toBe(1);
});

test('a cancelled timer is gone', () => {
  const clock = virtualClock();
  clock.at(10, () => expect.unreachable()).cancel();
  clock.advanceUs(100);
  expect(clock.liveTimers).toBe(0);
});
