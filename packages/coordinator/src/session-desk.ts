import {
  CANCELLED,
  type EntryResult,
  type ErrorInfo,
  SEQUENCE_TIMEOUT,
  STOPPING,
  sequenceLost,
  sequenceNeedsStart,
} from '@nereid/protocol';
import type { SessionClose } from '@nereid/scheduler';
import { canBindAnew, createDeskActs, isOut, type LostError } from './desk-acts.ts';
import { stepVerdict } from './session-arrival.ts';
import {
  createSessionBook,
  isSamePlace,
  type KnownSequence,
  type KnownStep,
  knownSequence,
  newSession,
  type Place,
  raiseMark,
  type Session,
  type StepArrival,
} from './session-book.ts';
import { type DescribedActs, takeDescribed } from './session-described.ts';
import { type DeskDecision, type DeskEvent, type DeskWorld, STEP_HELD_US_MAX } from './session-events.ts';
import { createStepStates, isWaiting } from './step-states.ts';

/**
 * What becomes of the steps of one model version (docs/protocol.md R9, R12, R13, R15, R16, R18, R19, R21, R22, R24,
 * R29). A pure step over (state, event, world); its decisions are to be carried out in their order.
 *
 * A *session* lives from its START's arrival, or from the word of a worker that has it, until its END is over, the
 * scheduler ends it, the owner fails one of its steps, or its worker is lost. It is *unplaced* until the scheduler has
 * sent a step of it; then it is where its slot is. What is over is remembered for a while by its marks. Steps are where
 * `StepState` says; each leaves by one decision `fail` or `moved`, or with the event `over` or `failed`.
 */
export interface SessionDesk {
  step(event: DeskEvent, world: DeskWorld): readonly DeskDecision[];
  /** The step's; undefined of one whose session is over or not known. */
  sessionOf(id: string): Session | undefined;
  isHeld(id: string): boolean;
  /** Its data are to come again. */
  awaits(id: string): boolean;
  /** It has a slot, whose worker goes on with it. */
  isPlaced(id: string): boolean;
  /** The session, where it lives or is remembered; undefined where neither. */
  knows(session: string): KnownSequence | undefined;
  /** The last one of that id. */
  knowsId(correlationId: bigint | string): KnownSequence | undefined;
  /** The session of that id that goes on. */
  present(correlationId: bigint | string): string | undefined;
  /** Steps that are held. */
  readonly held: number;
  readonly sessions: ReadonlyMap<string, Session>;
}

export function createSessionDesk(
  model: string,
  lostError: LostError = (correlationId) => sequenceLost(model, correlationId),
): SessionDesk {
  const book = createSessionBook();
  const states = createStepStates(book);
  const acts = createDeskActs(lostError, book, states);
  const { isLive, setState, forget, fail, lost, queue, putBack, close, bindAnew, leaving } = acts;
  const { changed, join } = states;

  /** Sends the step on its way, or leaves it held. */
  const decide = (step: KnownStep) => {
    const { arrival } = step;
    const verdict = stepVerdict(book, arrival, acts.world.described);
    switch (verdict.type) {
      case 'hold':
        break;
      case 'step':
        if (verdict.session.blocking === 0) queue(step, verdict.session);
        else join(step, verdict.session);
        break;
      case 'start': {
        const session = newSession(verdict.id, arrival.correlationId, acts.nextBind(), acts.world.nowUs);
        book.open(session);
        queue(step, session, verdict.replaces);
        if (verdict.replaces !== undefined) {
          verdict.replaces.replaced = true;
          leaving.add(verdict.replaces);
        }
        break;
      }
      case 'replay': {
        const { session, place } = verdict.ended;
        if (place === undefined) break;
        setState(step, 'sent');
        acts.decisions.push({ type: 'replay', id: arrival.id, session, ...place });
        break;
      }
      case 'moved':
        forget(step);
        if (verdict.ends) book.settle(arrival.id);
        acts.decisions.push({ type: 'moved', id: arrival.id, sent: arrival.named, current: verdict.current });
        break;
      case 'needs-start':
        fail(step, sequenceNeedsStart(model, arrival.correlationId));
        break;
      case 'lost':
        fail(step, lost(step));
        break;
    }
  };

  /** What waits here for the present session, or for its END, keeps it from being idle. */
  const tellHeld = (correlationId: bigint | string) => {
    const session = book.present(correlationId);
    const [first] = states.held(correlationId);
    const held = first !== undefined;
    if (session?.scheduled !== true || session.held === held) return;
    session.held = held;
    acts.decisions.push({ type: 'session-held', session: session.id, held });
  };

  /** Until nothing changes any more. */
  const settle = () => {
    while (changed.size > 0 || leaving.size > 0) {
      for (const correlationId of changed) {
        changed.delete(correlationId);
        for (const step of states.held(correlationId)) decide(step);
        tellHeld(correlationId);
      }
      for (const session of leaving) {
        leaving.delete(session);
        if (isLive(session) && session.steps.size === 0) close(session, { lost: false, running: false });
      }
    }
  };

  const arrive = (arrival: StepArrival) => {
    const known = book.steps.get(arrival.id);
    if (known === undefined) {
      const step: KnownStep = { arrival, session: undefined, state: 'sent', heldUs: acts.world.nowUs };
      book.steps.set(arrival.id, step);
      setState(step, 'held');
      return;
    }
    known.arrival = arrival;
    if (known.state === 'held') changed.add(arrival.correlationId);
    if (known.state !== 'blob' || known.session === undefined) return;
    if (known.session.scheduled) putBack(known);
    else queue(known, known.session);
  };

  /** Its data are gone and come again; a START gives its slot back so long (R29). */
  const awaitData = (step: KnownStep, session: Session) => {
    setState(step, 'blob');
    if (!step.arrival.start || session.applied > 0) return;
    acts.decisions.push({ type: 'session-over', session: session.id });
    Object.assign(session, { bind: acts.nextBind(), place: undefined, scheduled: false, ending: false });
    for (const other of session.steps.values()) if (other.state === 'queued') setState(other, 'held');
  };

  const applied = (step: KnownStep, session: Session, result: EntryResult) => {
    const { id, sender, g, end } = step.arrival;
    raiseMark(session.marks, sender, g);
    if (result !== 'replayed') session.applied++;
    forget(step);
    if (!isLive(session)) return;
    acts.decisions.push({ type: 'step-over', id, ended: end });
    if (!end) return;
    session.scheduled = false;
    book.close(session, false, acts.world.nowUs);
    for (const other of [...session.steps.values()]) setState(other, 'held');
  };

  const over = (step: KnownStep, result: EntryResult) => {
    const { session, arrival } = step;
    switch (result) {
      case 'ok':
      case 'error':
      case 'replayed':
        if (session !== undefined) applied(step, session, result);
        else forget(step);
        return;
      case 'refused':
        forget(step);
        book.settle(arrival.id);
        if (!isLive(session)) return;
        if (arrival.end) session.ending = false;
        // Its worker has nothing of it.
        if (session.applied === 0) return close(session, { lost: false, running: false });
        acts.decisions.push({ type: 'step-over', id: arrival.id, ended: false });
        return;
      case 'duplicate':
        setState(step, 'elsewhere');
        return;
      case 'cancelled':
        forget(step);
        book.settle(arrival.id);
        if (isLive(session)) close(session, { lost: false, running: false, error: CANCELLED });
        return;
      case 'again':
        if (!isLive(session)) break;
        session.applied++;
        return returned(step);
      case 'blob':
        if (isLive(session)) return awaitData(step, session);
        break;
      case 'noslot':
        // A worker that drains gives STARTs back.
        if (isLive(session) && arrival.start && canBindAnew(session)) return bindAnew(session);
        break;
    }
    fail(step, lost(step));
    if (isLive(session)) close(session, { lost: true, running: false });
  };

  const sent = (step: KnownStep, place: Place, batch: number) => {
    const { session } = step;
    setState(step, 'sent');
    if (session === undefined) return;
    // A START that came back may get another slot; where the first got it all the same, that is the older one.
    if (session.place !== undefined && !isSamePlace(session.place, place)) session.bind = acts.nextBind();
    session.place = place;
    session.startCameBack = false;
    session.lastBatch = batch;
  };

  const returned = (step: KnownStep) => {
    const { session } = step;
    if (session === undefined) setState(step, 'held');
    else if (!isLive(session)) fail(step, lost(step));
    else putBack(step);
  };

  /** Fail-stop: the session of a step that the owner has failed is over (R19). */
  const failed = (step: KnownStep, error: ErrorInfo) => {
    const { session, arrival } = step;
    forget(step);
    book.settle(arrival.id);
    const its = session ?? book.sessions.get(arrival.named ?? '');
    const shared = error === CANCELLED || error === SEQUENCE_TIMEOUT || error === STOPPING;
    if (isLive(its)) close(its, { lost: false, running: false, ...(shared ? { error } : {}) });
  };

  const closed = (session: Session, why: SessionClose) => {
    session.scheduled = false;
    const error = why === 'timeout' ? SEQUENCE_TIMEOUT : sequenceNeedsStart(model, session.correlationId);
    close(session, { lost: false, running: false, error });
  };

  const describedActs: DescribedActs = {
    bind(session, place) {
      if (session.scheduled) acts.decisions.push({ type: 'session-over', session: session.id });
      session.place = place;
      session.startCameBack = false;
      session.scheduled = true;
      session.held = false;
      acts.decisions.push({ type: 'bound', session: session.id, place });
      for (const step of session.steps.values()) if (step.state === 'queued') queue(step, session);
    },
    free: (session, worker) => acts.decisions.push({ type: 'free', session, worker }),
    lose: acts.lose,
    supersede: (session) => close(session, { lost: true, running: false }),
  };

  /** What is held for too long goes where it can, and fails where it cannot. */
  const lookAfterHeld = () => {
    for (const step of [...book.steps.values()]) {
      if (!isWaiting(step.state) || acts.world.nowUs - step.heldUs < STEP_HELD_US_MAX) continue;
      const { start, sender, prev } = step.arrival;
      if (start && step.state === 'held' && !book.settled(`${sender}:${prev}`)) {
        book.settle(`${sender}:${prev}`);
        setState(step, 'held');
        continue;
      }
      const error = lost(step);
      acts.decisions.push({ type: 'fail', id: step.arrival.id, error, reason: 'OTHER' });
      failed(step, error);
    }
  };

  const take = (event: DeskEvent) => {
    switch (event.type) {
      case 'arrived':
        arrive(event.step);
        return;
      case 'evicted':
      case 'closed': {
        const session = book.sessions.get(event.session);
        if (session === undefined) return;
        if (event.type === 'closed') closed(session, event.why);
        else close(session, { lost: false, running: false, error: event.error });
        return;
      }
      case 'described':
        takeDescribed(book, event, acts.world.nowUs, describedActs);
        states.changeAll();
        return;
      case 'gone':
        for (const session of [...book.sessions.values()])
          if (session.place?.worker === event.worker) acts.lose(session);
        book.forgetAnswers(event.worker);
        states.changeAll();
        return;
      case 'time':
        lookAfterHeld();
        return;
    }
    const step = book.steps.get(event.id);
    if (step === undefined) return;
    // Of a batch from before its session began anew.
    if (!isOut(step) && (event.type === 'over' || event.type === 'returned')) return;
    switch (event.type) {
      case 'sent':
        sent(step, event.place, event.batch);
        return;
      case 'over':
        over(step, event.result);
        return;
      case 'returned':
        returned(step);
        return;
      case 'failed':
        failed(step, event.error);
        return;
    }
  };

  return {
    step(event, now) {
      acts.begin(now);
      take(event);
      settle();
      return acts.decisions;
    },
    sessionOf: (id) => book.steps.get(id)?.session,
    isHeld: (id) => book.steps.get(id)?.state === 'held',
    awaits: (id) => book.steps.get(id)?.state === 'blob',
    isPlaced(id) {
      const step = book.steps.get(id);
      return (step?.session ?? book.sessions.get(step?.arrival.named ?? ''))?.place !== undefined;
    },
    knows: (session) => knownSequence(book.sessions.get(session), book.ended(session)),
    knowsId: (correlationId) => knownSequence(book.present(correlationId), book.lastEnded(correlationId)),
    present(correlationId) {
      const session = book.present(correlationId);
      return session?.ending === true ? undefined : session?.id;
    },
    get held() {
      return states.waiting;
    },
    sessions: book.sessions,
  };
}
