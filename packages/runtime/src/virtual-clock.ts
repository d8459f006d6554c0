import type { Clock, Timer } from './clock.ts';

/** A clock that stands still until told: for table tests and simulations. */
export interface VirtualClock extends Clock {
  /** Moves on by so much, calling back in order of time what falls due on the way. */
  advanceUs(us: number): void;
  readonly liveTimers: number;
}

export function virtualClock(startUs = 0): VirtualClock {
  let now = startUs;
  let sequence = 0;
  const timers = new Map<number, { readonly timeUs: number; readonly callback: () => void }>();
  const next = () => {
    let found: number | undefined;
    for (const [key, timer] of timers) {
      if (found === undefined || timer.timeUs < (timers.get(found)?.timeUs ?? 0)) found = key;
    }
    return found;
  };
  return {
    nowUs: () => now,
    wallMs: () => now / 1000,
    get liveTimers() {
      return timers.size;
    },
    at(timeUs, callback): Timer {
      const key = sequence++;
      timers.set(key, { timeUs, callback });
      return { cancel: () => void timers.delete(key) };
    },
    advanceUs(us) {
      const until = now + us;
      for (;;) {
        const key = next();
        const timer = key === undefined ? undefined : timers.get(key);
        if (key === undefined || timer === undefined || timer.timeUs > until) break;
        timers.delete(key);
        now = Math.max(now, timer.timeUs);
        timer.callback();
      }
      now = until;
    },
  };
}
