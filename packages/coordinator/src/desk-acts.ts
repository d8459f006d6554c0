import type { Bind, ErrorInfo, FailureReason } from '@nereid/protocol';
import type { KnownStep, Session, SessionBook, StepState } from './session-book.ts';
import type { DeskDecision, DeskWorld } from './session-events.ts';
import type { StepStates } from './step-states.ts';

/** What a step is answered with whose sequence is lost. */
export type LostError = (correlationId: bigint | string) => ErrorInfo;

/** What a desk does with steps and sessions: each changes its book and says what is to be carried out. */
export interface DeskActs {
  /** In what is done next; what was decided before is forgotten. */
  begin(world: DeskWorld): void;
  readonly world: DeskWorld;
  /** Since `begin`. */
  readonly decisions: DeskDecision[];
  /** Replaced sessions that a step has left; whoever looks at them takes them away. */
  readonly leaving: Set<Session>;
  isLive(session: Session | undefined): session is Session;
  setState(step: KnownStep, state: StepState): void;
  forget(step: KnownStep): void;
  fail(step: KnownStep, error: ErrorInfo): void;
  /** The error of a step whose sequence is lost. */
  lost(step: KnownStep): ErrorInfo;
  nextBind(): Bind;
  /** At the end of its session, in the slot of another that it replaces. */
  queue(step: KnownStep, session: Session, replaces?: Session): void;
  /** At the head of its session, where it was before. */
  putBack(step: KnownStep): void;
  /** Ends the session and fails its steps. `running`: also those that a worker has, which is lost or has lost it. */
  close(session: Session, end: { readonly lost: boolean; readonly running: boolean; readonly error?: ErrorInfo }): void;
  /** It gets a slot anew: nothing of it was applied (R21). */
  bindAnew(session: Session): void;
  /** Its worker has nothing of it any more. */
  lose(session: Session): void;
}

export function createDeskActs(lostError: LostError, book: SessionBook, states: StepStates): DeskActs {
  const leaving = new Set<Session>();
  let world: DeskWorld = { nowUs: 0, epoch: 0, described: false };
  let decisions: DeskDecision[] = [];
  let lastBind = 0;

  const setState = (step: KnownStep, state: StepState) => states.set(step, state, world.nowUs);

  const forget = (step: KnownStep) => {
    states.forget(step);
    if (step.session?.replaced === true) leaving.add(step.session);
  };

  const fail = (step: KnownStep, error: ErrorInfo, reason: FailureReason = 'OTHER') => {
    forget(step);
    book.settle(step.arrival.id);
    decisions.push({ type: 'fail', id: step.arrival.id, error, reason });
  };

  const lost = ({ arrival: { correlationId } }: KnownStep) => lostError(correlationId);

  const nextBind = (): Bind => ({ epoch: world.epoch, n: ++lastBind });

  const queue = (step: KnownStep, session: Session, replaces?: Session) => {
    states.join(step, session);
    setState(step, 'queued');
    const { id, end, number } = step.arrival;
    if (number >= 0) session.numbered = true;
    const start = !session.scheduled;
    if (start) session.held = false;
    session.scheduled = true;
    if (end) session.ending = true;
    decisions.push({ type: 'queue', id, sequence: { session: session.id, start, end, replaces: replaces?.id } });
  };

  const close: DeskActs['close'] = (session, end) => {
    book.close(session, end.lost, world.nowUs);
    states.changed.add(session.correlationId);
    if (session.scheduled) decisions.push({ type: 'session-over', session: session.id });
    // A worker that has lost it knows.
    if (session.place !== undefined && !end.running) {
      decisions.push({ type: 'free', session: session.id, worker: session.place.worker });
    }
    for (const step of [...session.steps.values()]) {
      if (end.running || !isOut(step)) fail(step, end.error ?? lost(step));
    }
  };

  const bindAnew = (session: Session) => {
    if (session.scheduled) decisions.push({ type: 'session-over', session: session.id });
    Object.assign(session, { bind: nextBind(), place: undefined, scheduled: false, lastBatch: 0, ending: false });
    for (const step of session.steps.values()) if (step.state !== 'held' && step.state !== 'blob') queue(step, session);
  };

  return {
    begin(now) {
      world = now;
      decisions = [];
    },
    get world() {
      return world;
    },
    get decisions() {
      return decisions;
    },
    leaving,
    isLive: (session): session is Session => session !== undefined && book.sessions.get(session.id) === session,
    setState,
    forget,
    fail,
    lost,
    nextBind,
    queue,
    putBack(step) {
      setState(step, 'queued');
      if (step.session !== undefined && step.arrival.start) step.session.startCameBack = true;
      decisions.push({ type: 'again', id: step.arrival.id });
    },
    close,
    bindAnew,
    lose(session) {
      if (canBindAnew(session)) bindAnew(session);
      else close(session, { lost: true, running: true });
    },
  };
}

export function canBindAnew({ applied, steps }: Session): boolean {
  return applied === 0 && [...steps.values()].some(({ arrival }) => arrival.start);
}

/** A worker has it. */
export function isOut({ state }: KnownStep): boolean {
  return state === 'sent' || state === 'elsewhere';
}
