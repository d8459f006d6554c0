import type { KnownStep, Session, SessionBook, StepState } from './session-book.ts';

/** Where the steps of a desk are, and which of them may go on. */
export interface StepStates {
  set(step: KnownStep, state: StepState, nowUs: number): void;
  /** It is one of the session, at its end if it was not yet. */
  join(step: KnownStep, session: Session): void;
  forget(step: KnownStep): void;
  /** Held steps of a correlation id, in the order in which they came. */
  held(correlationId: bigint | string): Iterable<KnownStep>;
  /** All held steps may go on. */
  changeAll(): void;
  /** Correlation ids of which held steps may go on; whoever looks at them takes them away. */
  readonly changed: Set<bigint | string>;
  /** Steps that the scheduler does not have. */
  readonly waiting: number;
}

export function createStepStates({ steps }: SessionBook): StepStates {
  const held = new Map<bigint | string, Set<KnownStep>>();
  const changed = new Set<bigint | string>();
  let waiting = 0;

  const set = (step: KnownStep, state: StepState, nowUs: number) => {
    const { session, arrival } = step;
    if (session !== undefined) session.blocking += Number(isBlocking(state)) - Number(isBlocking(step.state));
    waiting += Number(isWaiting(state)) - Number(isWaiting(step.state));
    if (isWaiting(state)) step.heldUs = nowUs;
    step.state = state;
    const others = held.get(arrival.correlationId);
    if (state === 'held') held.set(arrival.correlationId, (others ?? new Set()).add(step));
    else if (others?.delete(step) === true && others.size === 0) held.delete(arrival.correlationId);
    changed.add(arrival.correlationId);
  };

  return {
    set,
    join(step, session) {
      step.session = session;
      session.steps.set(step.arrival.id, step);
    },
    forget(step) {
      set(step, 'sent', step.heldUs);
      steps.delete(step.arrival.id);
      step.session?.steps.delete(step.arrival.id);
    },
    held: (correlationId) => held.get(correlationId) ?? [],
    changeAll() {
      for (const correlationId of held.keys()) changed.add(correlationId);
    },
    changed,
    get waiting() {
      return waiting;
    },
  };
}

/** What comes for the session meanwhile is held. */
function isBlocking(state: StepState): boolean {
  return state === 'elsewhere' || state === 'blob';
}

/** The scheduler does not have it, and it is not out. */
export function isWaiting(state: StepState): boolean {
  return state === 'held' || state === 'blob';
}
