import type { Clock, Timer } from '@nereid/runtime';

interface Wait {
  readonly dueUs: number;
  readonly resolve: () => void;
  isLate: boolean;
}

/** Waits for what may be slow, each for a moment at most; while one is late, for no other at all. */
export interface BoundedWaits {
  /** Resolves once the promise is settled, its time is over, or at once where an earlier one is late. Never rejects. */
  settled(promise: Promise<unknown>): Promise<void>;
  close(): void;
}

/** One timer for all, since there may be thousands a second. */
export function createBoundedWaits(clock: Clock, ms: number): BoundedWaits {
  /** Those that are not late, in the order of their beginning. */
  const waits = new Set<Wait>();
  let late = 0;
  let timer: Timer | undefined;

  const arm = () => {
    if (timer !== undefined) return;
    for (const { dueUs } of waits) {
      timer = clock.at(dueUs, endLate);
      return;
    }
  };
  const endLate = () => {
    timer = undefined;
    const now = clock.nowUs();
    for (const wait of waits) {
      if (wait.dueUs > now) break;
      waits.delete(wait);
      wait.isLate = true;
      late++;
      wait.resolve();
    }
    arm();
  };
  const disarm = () => {
    timer?.cancel();
    timer = undefined;
  };
  const settle = (wait: Wait) => {
    if (wait.isLate) late--;
    else waits.delete(wait);
    wait.resolve();
    if (waits.size === 0) disarm();
  };

  return {
    settled(promise) {
      if (late > 0) return Promise.resolve();
      return new Promise((resolve) => {
        const wait: Wait = { dueUs: clock.nowUs() + ms * 1000, resolve, isLate: false };
        waits.add(wait);
        arm();
        const over = () => settle(wait);
        promise.then(over, over);
      });
    },
    close: disarm,
  };
}
