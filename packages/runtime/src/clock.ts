/** Time as an argument: rules and roles get one, tests give a virtual one. */
export interface Clock {
  /** Monotonic microseconds, with fractions. */
  nowUs(): number;
  /** Wall clock, milliseconds since the epoch: only for what people read. */
  wallMs(): number;
  /** Calls back once at or after that time; the handle cancels. Delays under a millisecond are honoured. */
  at(timeUs: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** Node's timers have steps of 1 ms and fire up to 1 ms late: the rest is spun on setImmediate. */
const SPIN_US = 1500;
/** A longer delay would overflow and fire at once; it is waited for in steps. */
const TIMEOUT_MS_MAX = 2_147_483_647;

/** The process's own clock. `liveTimers` counts what is set and has neither fired nor been cancelled. */
export function systemClock(): Clock & { readonly liveTimers: number } {
  let live = 0;
  const nowUs = () => performance.now() * 1000;
  return {
    nowUs,
    wallMs: () => Date.now(),
    get liveTimers() {
      return live;
    },
    at(timeUs, callback) {
      let timeout: NodeJS.Timeout | undefined;
      let immediate: NodeJS.Immediate | undefined;
      let over = false;
      live++;
      const finish = () => {
        over = true;
        live--;
      };
      const wait = () => {
        const leftUs = timeUs - nowUs();
        if (leftUs <= 0) {
          finish();
          callback();
        } else if (leftUs > SPIN_US) {
          immediate = undefined;
          timeout = setTimeout(wait, Math.min(TIMEOUT_MS_MAX, Math.floor((leftUs - SPIN_US) / 1000) + 1));
        } else {
          timeout = undefined;
          immediate = setImmediate(wait);
        }
      };
      // Never inside `at`: the caller has not got its handle yet.
      if (timeUs - nowUs() > SPIN_US) wait();
      else immediate = setImmediate(wait);
      return {
        cancel() {
          if (over) return;
          finish();
          clearTimeout(timeout);
          clearImmediate(immediate);
        },
      };
    },
  };
}
