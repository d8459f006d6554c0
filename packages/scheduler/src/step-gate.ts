/** The gate of one step of an ensemble, shared by all its runs. */
export interface StepGate<C> {
  /** True: the call may be sent now. Else it waits, and `leave` or `expire` gives it back when it may. */
  enter(call: C, nowUs: number): boolean;
  /** A call that was let in is over; the one that may be sent in its place. */
  leave(): C | undefined;
  /** A call that waits does so no more; false where it does not wait. */
  withdraw(call: C): boolean;
  /** Those that have waited for too long: they may be sent, one more than the bound for each. */
  expire(nowUs: number): readonly C[];
  /** When `expire` has something to give, infinite for never. */
  readonly nextExpiryUs: number;
  /** Let in and not over. */
  readonly inflight: number;
  readonly waiting: number;
}

export interface StepGateOptions {
  /** `EnsembleSignature.maxInflight`: calls of the step at once, 0 for no bound. */
  readonly inflight_max: number;
  /** A call that has waited for so long is sent all the same; 300 s in Triton (kMutexTimeoutSeconds). */
  readonly wait_max_us: number;
}

/**
 * max_inflight_requests (ensemble_scheduler.cc, StepInflightRequestLimiter): so many calls of a step may be sent and not
 * over, over all runs of the ensemble. A decoupled call counts until its last answer. The others wait, first come, first
 * served; in Triton whichever thread wakes first goes.
 *
 * Triton lets the thread wait that has brought an answer, so that its model gives no more before the calls made of that
 * answer are sent. Whoever runs an ensemble reads a call's next answer only then. No model waits for that: what is unread
 * is within the bounds of streams.
 *
 * A call that waits for `wait_max_us` goes all the same: an ensemble whose steps wait for each other, by a model that
 * calls the ensemble, would else never end.
 */
export function createStepGate<C>({ inflight_max, wait_max_us }: StepGateOptions): StepGate<C> {
  /** In the order in which they came, with when they are let in at the latest. */
  const line = new Map<C, number>();
  let inflight = 0;
  return {
    enter(call, nowUs) {
      if (inflight_max > 0 && (line.size > 0 || inflight >= inflight_max)) {
        line.set(call, nowUs + wait_max_us);
        return false;
      }
      inflight++;
      return true;
    },
    leave() {
      inflight--;
      if (inflight >= inflight_max) return undefined;
      const [next] = line.keys();
      if (next === undefined) return undefined;
      line.delete(next);
      inflight++;
      return next;
    },
    withdraw: (call) => line.delete(call),
    expire(nowUs) {
      const expired: C[] = [];
      for (const [call, dueUs] of line) {
        if (dueUs > nowUs) break;
        line.delete(call);
        inflight++;
        expired.push(call);
      }
      return expired;
    },
    get nextExpiryUs() {
      const [dueUs] = line.values();
      return dueUs ?? Number.POSITIVE_INFINITY;
    },
    get inflight() {
      return inflight;
    },
    get waiting() {
      return line.size;
    },
  };
}
