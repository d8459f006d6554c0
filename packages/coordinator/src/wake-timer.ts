import type { Clock, Timer } from '@nereid/runtime';

/** One timer that is set anew each time. */
export interface WakeTimer {
  readonly isSet: boolean;
  /** In place of an earlier wish. */
  set(atUs: number): void;
  drop(): void;
}

export function createWakeTimer(clock: Clock, wake: () => void): WakeTimer {
  let timer: Timer | undefined;
  const drop = () => {
    timer?.cancel();
    timer = undefined;
  };
  return {
    get isSet() {
      return timer !== undefined;
    },
    set(atUs) {
      drop();
      timer = clock.at(atUs, () => {
        timer = undefined;
        wake();
      });
    },
    drop,
  };
}
