import type { Clock, Timer } from '@nereid/runtime';

export interface Ticks {
  /** Calls back every so often until `close`. */
  every(ms: number, tick: () => void): void;
  close(): void;
}

export function createTicks(clock: Clock): Ticks {
  const timers = new Map<() => void, Timer>();
  const every = (ms: number, tick: () => void) => {
    const next = () => {
      every(ms, tick);
      tick();
    };
    timers.set(tick, clock.at(clock.nowUs() + ms * 1000, next));
  };
  return {
    every,
    close() {
      for (const timer of timers.values()) timer.cancel();
      timers.clear();
    },
  };
}
