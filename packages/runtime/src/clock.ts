/** Time as an argument: rules and roles get one, tests give a virtual one. */
export interface Clock {
  /** Monotonic microseconds, with fractions. */
  nowUs(): number;
  /** Wall clock, milliseconds since the epoch: only for what people read. */
  wallMs(): number;
  /**
   * Calls back once at or after that time; the handle cancels. Delays under a millisecond are honoured; those of more
   * than 50 ms may end 2 ms late.
   */
  at(timeUs: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** Node's timers have steps of 1 ms and fire up to 1 ms late: the rest is spun on setImmediate. */
const SPIN_US = 1500;
/** A longer wait fires up to LATE_MS late: to spin for each would keep a core busy for what nobody could tell. */
const EXACT_WAIT_US_MAX = 50_000;
/** Node counts from the start of the present millisecond and rounds down: so much more, and it is never early. */
const LATE_MS = 2;
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
      const isExact = timeUs - nowUs() <= EXACT_WAIT_US_MAX;
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
          const ms = isExact ? Math.floor((leftUs - SPIN_US) / 1000) + 1 : Math.floor(leftUs / 1000) + LATE_MS;
          timeout = setTimeout(wait, Math.min(TIMEOUT_MS_MAX, ms));
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
