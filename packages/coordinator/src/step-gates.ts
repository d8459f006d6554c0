import type { Clock } from '@nereid/runtime';
import { createStepGate } from '@nereid/scheduler';
import { createWakeTimer } from './wake-timer.ts';

/** As in Triton (kMutexTimeoutSeconds). */
const WAIT_MAX_US = 300_000_000;

/** The gates of an ensemble's steps (`max_inflight_requests`), shared by its runs. */
export interface StepGates<C extends { readonly step: number }> {
  /** Calls `send` with the call once it may go, at once if that is now. */
  enter(call: C): void;
  /** A call that was sent is over. */
  leave(call: C): void;
  /** False where it does not wait. */
  withdraw(call: C): boolean;
  readonly waiting: number;
  close(): void;
}

export function createStepGates<C extends { readonly step: number }>(
  clock: Clock,
  steps: number,
  inflight_max: number,
  send: (call: C, late: boolean) => void,
): StepGates<C> {
  const gates = Array.from({ length: steps }, () => createStepGate<C>({ inflight_max, wait_max_us: WAIT_MAX_US }));
  const wake = createWakeTimer(clock, () => {
    for (const gate of gates) for (const call of gate.expire(clock.nowUs())) send(call, true);
    arm();
  });

  const arm = () => {
    const dueUs = Math.min(...gates.map(({ nextExpiryUs }) => nextExpiryUs));
    if (Number.isFinite(dueUs)) wake.set(dueUs);
    else wake.drop();
  };

  return {
    enter(call) {
      const gate = gates[call.step];
      if (inflight_max === 0 || gate === undefined) {
        send(call, false);
        return;
      }
      if (gate.enter(call, clock.nowUs())) send(call, false);
      else arm();
    },
    leave(call) {
      if (inflight_max === 0) return;
      const next = gates[call.step]?.leave();
      arm();
      if (next !== undefined) send(next, false);
    },
    withdraw(call) {
      const withdrawn = gates[call.step]?.withdraw(call) === true;
      if (withdrawn) arm();
      return withdrawn;
    },
    get waiting() {
      return gates.reduce((sum, { waiting }) => sum + waiting, 0);
    },
    close: () => wake.drop(),
  };
}
