import type { Clock, Timer } from '@nereid/runtime';

export interface Heartbeat {
  start(): void;
  /** Beats as soon as possible, once for all that ask meanwhile. */
  soon(): void;
  stop(): void;
}

/**
 * Calls `beat` every `periodUs`, never twice at a time: what falls due while one is under way is
 * made up for by one more right after it, so that a slow answer is followed by a fresh one.
 * `beat` must not reject.
 */
export function createHeartbeat(clock: Clock, periodUs: number, beat: () => Promise<void>): Heartbeat {
  let timer: Timer | undefined;
  let isBeating = false;
  let again = false;

  const run = async () => {
    if (isBeating) {
      again = true;
      return;
    }
    isBeating = true;
    do {
      again = false;
      await beat();
    } while (again && timer !== undefined);
    isBeating = false;
  };
  const tick = () => {
    timer = clock.at(clock.nowUs() + periodUs, tick);
    void run();
  };

  return {
    start() {
      if (timer === undefined) timer = clock.at(clock.nowUs() + periodUs, tick);
    },
    soon() {
      if (timer !== undefined) void run();
    },
    stop() {
      timer?.cancel();
      timer = undefined;
    },
  };
}
