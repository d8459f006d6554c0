import { expect, test, vi } from 'vitest';
import { systemClock } from './clock.ts';

const fired = (clock: ReturnType<typeof systemClock>, delayUs: number) =>
  new Promise<number>((resolve) => {
    const due = clock.nowUs() + delayUs;
    clock.at(due, () => resolve(clock.nowUs() - due));
  });

test.each([0, 100, 900, 2_500, 12_000, 60_000])('a timer of %i us never fires early', async (delayUs) => {
  expect(await fired(systemClock(), delayUs)).toBeGreaterThanOrEqual(0);
});

test('a timer in the past fires, but not inside the call that set it', async () => {
  const clock = systemClock();
  let inside = true;
  const seen = new Promise<boolean>((resolve) => clock.at(clock.nowUs() - 5_000, () => resolve(inside)));
  inside = false;
  expect(await seen).toBe(false);
});

test('a timer further away than setTimeout can wait does not fire at once', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  try {
    const clock = systemClock();
    const year = 365 * 24 * 3_600e6;
    let fires = 0;
    clock.at(clock.nowUs() + year, () => fires++);
    vi.advanceTimersByTime(year / 1000 - 10_000);
    expect(fires).toBe(0);
    expect(vi.getTimerCount()).toBe(1);
  } finally {
    vi.useRealTimers();
  }
});

test('live timers count what is neither fired nor cancelled', async () => {
  const clock = systemClock();
  const cancelled = clock.at(clock.nowUs() + 60_000_000, () => expect.unreachable());
  const spinning = clock.at(clock.nowUs() + 500, () => expect.unreachable());
  expect(clock.liveTimers).toBe(2);
  cancelled.cancel();
  cancelled.cancel();
  spinning.cancel();
  expect(clock.liveTimers).toBe(0);
  await fired(clock, 3_000);
  expect(clock.liveTimers).toBe(0);
});

test.each([
  [10_000, 'is spun to its end', 1],
  [60_000, 'keeps no core busy', 0],
])('a wait of %i us %s', (delayUs, _what, spins) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const immediate = vi.spyOn(globalThis, 'setImmediate').mockReturnValue({} as NodeJS.Immediate);
  try {
    const clock = systemClock();
    let fires = 0;
    clock.at(clock.nowUs() + delayUs, () => fires++);
    vi.advanceTimersByTime(delayUs / 1000 + 2);
    expect(immediate).toHaveBeenCalledTimes(spins);
    expect(fires).toBe(1 - spins);
  } finally {
    immediate.mockRestore();
    vi.useRealTimers();
  }
});
