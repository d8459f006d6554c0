/**
 * The sequences of one model version on this worker: which has which slot, what it has applied of each sender, and what
 * it may run next. A pure rule: each call is an event at a time, and what it returns is to be done. Their states are
 * where the instance is carried (slot-states.ts).
 *
 * A session is *live* from when its START is taken until it ends; while one of its steps runs nothing else of it is
 * taken, and an end that comes meanwhile waits for that step. *Ended*, it is remembered for a while. Of a session whose
 * START never reached the model nothing is remembered: it may begin again, here or elsewhere.
 */
import {
  answerExpired,
  type Bind,
  type EndedSession,
  type EntryResult,
  type ErrorInfo,
  type ProcessId,
  type SlotDescription,
  type StepOrder,
  stepGap,
} from '@nereid/protocol';
import { createEndedSessions, type RememberedSession } from './ended-sessions.ts';
import { type AnswerWindow, createKeptAnswers, type KeptAnswersLimits, type StepAnswer } from './kept-answers.ts';
import { createSenderLows } from './sender-lows.ts';

/** One step as the rule sees it; the object itself names the run that it is taken for. */
export interface Step {
  readonly id: string;
  readonly sender: ProcessId;
  readonly session: string;
  readonly correlationId: bigint | string;
  readonly start: boolean;
  readonly instance: number;
  /** -1: only to be answered with what was done before. */
  readonly slot: number;
  readonly order: StepOrder;
}

export type StepDecision =
  | { readonly type: 'run' }
  /** It was done before; without an answer its sender waits for none. */
  | { readonly type: 'replay'; readonly answer: StepAnswer | undefined }
  /** A numbered step that cannot be done; its sender is told. */
  | { readonly type: 'refuse'; readonly error: ErrorInfo }
  /** Only its owner is told. */
  | { readonly type: 'leave'; readonly result: EntryResult };

/** How a step that was taken has ended. */
export type StepEnd =
  /** Answered, with whatever the model said. `ends`: its sequence is over with it. */
  | { readonly type: 'applied'; readonly ends: boolean; readonly answer: StepAnswer | undefined }
  /** It is to run once more. */
  | { readonly type: 'again'; readonly nextChunk: number }
  | { readonly type: 'cancelled' }
  /** Its carrier ended with it. */
  | { readonly type: 'lost' }
  /** It never reached the model. */
  | { readonly type: 'unseen' };

/** What is known of a session; undefined where that is nothing. */
export type SessionFate = 'live' | 'ended' | 'lost' | undefined;

export interface SessionSlots {
  /** `whole`: its data are there. `admits`: new sequences may begin. */
  take(step: Step, given: { readonly whole: boolean; readonly admits: boolean }, nowUs: number): StepDecision;
  /** A step that was taken to run has ended. What its owner is told where its sender is told nothing. */
  over(step: Step, end: StepEnd, nowUs: number): 'again' | 'lost' | 'noslot' | undefined;
  /** Its owner gives the slot back. */
  free(session: string, nowUs: number): void;
  /** The state of that instance's sequences is gone; of all instances where it is undefined. */
  lost(instance: number | undefined, nowUs: number): void;
  /** Forgets everything: whoever asks later asks another worker (docs/protocol.md R10). */
  drop(): void;
  /** The number of the next chunk that answers a step of that session. */
  nextChunk(session: string): number;
  describe(nowUs: number): { readonly slots: readonly SlotDescription[]; readonly ended: readonly EndedSession[] };
  fate(session: string): SessionFate;
  /** Whether a session lives on that instance. */
  livesOn(instance: number): boolean;
  /** Sessions that live. */
  readonly live: Iterable<string>;
  readonly size: number;
  /** Sessions that lived and no longer do, so far. */
  readonly overCount: number;
}

interface Live {
  readonly session: string;
  readonly correlationId: bigint | string;
  readonly instance: number;
  readonly slot: number;
  bind: Bind;
  /** The highest g applied, by sender, the one that was heard of longest ago first. */
  readonly marks: Map<ProcessId, number>;
  /** A sender's mark was dropped: one that has none may have had one. */
  forgotSender: boolean;
  steps: number;
  readonly answers: AnswerWindow;
  running: Step | undefined;
  /** What becomes of it once the running step is over. */
  ending: 'freed' | 'lost' | undefined;
  /** Its step has run and is to run once more; so many chunks are out. */
  again: boolean;
  chunks: number;
}

/** Of one session; one more takes the place of the one that was heard of longest ago. */
const SENDERS_MAX = 256;

const RUN: StepDecision = { type: 'run' };
const left = (result: EntryResult): StepDecision => ({ type: 'leave', result });
const DUPLICATE = left('duplicate');
const LOST = left('lost');
const GAP = left('gap');
const NO_SLOT = left('noslot');
const NO_DATA = left('blob');
const AGAIN = left('again');

export function createSessionSlots(model: string, limits: KeptAnswersLimits): SessionSlots {
  const sessions = new Map<string, Live>();
  /** By instance and slot. */
  const places = new Map<string, Live>();
  const lows = createSenderLows();
  const ended = createEndedSessions(lows.passed);
  const kept = createKeptAnswers(limits);
  let overCount = 0;

  const leavePlace = (live: Live) => {
    const place = placeName(live);
    if (places.get(place) === live) places.delete(place);
  };

  const forget = (live: Live) => {
    leavePlace(live);
    sessions.delete(live.session);
    overCount++;
  };

  const end = (live: Live, lost: boolean, nowUs: number) => {
    forget(live);
    const { session, correlationId, marks, steps, answers } = live;
    ended.add({ session, correlationId, marks, steps, lost, answers, endedUs: nowUs });
  };

  /** Ends it now, or once its running step is over; what is lost stays so. */
  const finish = (live: Live, how: 'freed' | 'lost', nowUs: number) => {
    if (live.running === undefined) {
      end(live, how === 'lost', nowUs);
      return;
    }
    if (live.ending !== 'lost') live.ending = how;
    leavePlace(live);
  };

  /** Of a step that was done before in a session that lives or has ended. */
  const done = ({ answers }: { readonly answers: AnswerWindow }, step: Step): StepDecision => {
    const { sender, order } = step;
    if (lows.passed(sender, order.g)) return { type: 'replay', answer: undefined };
    if (order.number >= 0) {
      const answer = answers.byNumber(order.number);
      if (answer !== undefined) return { type: 'replay', answer };
      return { type: 'refuse', error: answerExpired(model, step.correlationId) };
    }
    const answer = answers.bySender(sender, order.g);
    return answer === undefined ? LOST : { type: 'replay', answer };
  };

  const ofEnded = (past: RememberedSession, step: Step): StepDecision => {
    const { sender, order, start } = step;
    const covered = order.number >= 0 ? order.number < past.steps : order.g <= (past.marks.get(sender) ?? 0);
    if (covered) return done(past, step);
    return past.lost || start ? LOST : NO_SLOT;
  };

  const begin = (step: Step, whole: boolean, nowUs: number): StepDecision => {
    const { instance, slot, session, correlationId, order } = step;
    if (order.number > 0) return { type: 'refuse', error: stepGap(model, correlationId, 0) };
    const holder = places.get(placeName(step));
    if (holder !== undefined && compareBinds(holder.bind, order.bind) >= 0) return NO_SLOT;
    if (!whole) return NO_DATA;
    if (holder !== undefined) finish(holder, 'freed', nowUs);
    const live: Live = {
      session,
      correlationId,
      instance,
      slot,
      bind: order.bind,
      marks: new Map(),
      forgotSender: false,
      steps: 0,
      answers: kept.window(),
      running: step,
      ending: undefined,
      again: false,
      chunks: 0,
    };
    sessions.set(session, live);
    places.set(placeName(live), live);
    return RUN;
  };

  /** A step that was not done before and has its turn. */
  const proceed = (live: Live, step: Step, whole: boolean): StepDecision => {
    if (live.ending === 'lost') return LOST;
    if (live.instance !== step.instance || live.slot !== step.slot || live.ending !== undefined) return NO_SLOT;
    // Its owner did not hear that it has run.
    if (live.again && step.start) return AGAIN;
    if (!whole) return NO_DATA;
    if (compareBinds(step.order.bind, live.bind) > 0) live.bind = step.order.bind;
    live.running = step;
    return RUN;
  };

  const ofNumbered = (live: Live, step: Step, whole: boolean): StepDecision => {
    const { number, g } = step.order;
    if (number !== live.steps) raiseMark(live, step.sender, g);
    if (number < live.steps) return done(live, step);
    if (live.running !== undefined) return GAP;
    if (number > live.steps) return { type: 'refuse', error: stepGap(model, step.correlationId, live.steps) };
    return proceed(live, step, whole);
  };

  const ofLive = (live: Live, step: Step, whole: boolean, nowUs: number): StepDecision => {
    const { sender, order } = step;
    if (live.running?.id === step.id) return DUPLICATE;
    live.answers.passed(sender, order.low);
    if (order.number >= 0) return ofNumbered(live, step, whole);
    const mark = live.marks.get(sender);
    if ((mark !== undefined && order.g <= mark) || (mark === undefined && live.forgotSender)) {
      const decision = mark === undefined ? LOST : done(live, step);
      if (decision === LOST) finish(live, 'lost', nowUs);
      return decision;
    }
    if (live.running !== undefined || order.prev > (mark ?? 0)) return GAP;
    return proceed(live, step, whole);
  };

  return {
    take(step, { whole, admits }, nowUs) {
      ended.prune(nowUs);
      lows.heard(step.sender, step.order.low);
      const live = sessions.get(step.session);
      if (live !== undefined) return ofLive(live, step, whole, nowUs);
      const past = ended.get(step.session);
      if (past !== undefined) return ofEnded(past, step);
      return step.start && step.slot >= 0 && admits ? begin(step, whole, nowUs) : NO_SLOT;
    },
    over(step, how, nowUs) {
      const live = sessions.get(step.session);
      if (live?.running !== step) {
        // Dropped meanwhile.
        if (how.type === 'unseen') return step.start ? 'noslot' : 'lost';
        return how.type === 'lost' || how.type === 'again' ? 'lost' : undefined;
      }
      live.running = undefined;
      if (how.type === 'unseen' && live.steps === 0) {
        forget(live);
        return 'noslot';
      }
      if (how.type === 'again') {
        live.steps++;
        live.again = true;
        live.chunks = how.nextChunk;
      } else if (how.type !== 'unseen') raiseMark(live, step.sender, step.order.g);
      if (how.type === 'applied') {
        const { sender, order } = step;
        const { answer } = how;
        const number = live.steps++;
        if (answer !== undefined) {
          live.answers.keep({ sender, g: order.g, number, numbered: order.number >= 0, answer });
        }
      }
      const lost = how.type === 'lost' || how.type === 'unseen' || live.ending === 'lost';
      const ends = how.type === 'cancelled' || (how.type === 'applied' && how.ends);
      // One that is over in order has nothing left to lose.
      if (lost && !(how.type === 'applied' && how.ends)) end(live, true, nowUs);
      else if (ends || live.ending !== undefined) end(live, false, nowUs);
      if (how.type === 'again') return live.ending === undefined ? 'again' : 'lost';
      return how.type === 'lost' || how.type === 'unseen' ? 'lost' : undefined;
    },
    free(session, nowUs) {
      const live = sessions.get(session);
      if (live !== undefined) finish(live, 'freed', nowUs);
    },
    lost(instance, nowUs) {
      for (const live of [...sessions.values()]) {
        if (instance === undefined || live.instance === instance) finish(live, 'lost', nowUs);
      }
    },
    drop() {
      for (const live of sessions.values()) live.answers.clear();
      overCount += sessions.size;
      sessions.clear();
      places.clear();
      ended.clear();
    },
    nextChunk: (session) => sessions.get(session)?.chunks ?? 0,
    describe(nowUs) {
      ended.prune(nowUs);
      const all = [...sessions.values()];
      const ending = all.filter((live) => live.ending !== undefined);
      return {
        slots: all.flatMap((live) => (live.ending === undefined ? [slotDescription(live)] : [])),
        ended: [...ended.describe(), ...ending.map(endingDescription)],
      };
    },
    fate(session) {
      if (sessions.has(session)) return 'live';
      const past = ended.get(session);
      return past === undefined ? undefined : past.lost ? 'lost' : 'ended';
    },
    livesOn: (instance) => [...sessions.values()].some((live) => live.instance === instance),
    live: { [Symbol.iterator]: () => sessions.keys() },
    get size() {
      return sessions.size;
    },
    get overCount() {
      return overCount;
    },
  };
}

function raiseMark(live: Live, sender: ProcessId, g: number): void {
  const mark = live.marks.get(sender) ?? 0;
  live.marks.delete(sender);
  live.marks.set(sender, Math.max(mark, g));
  for (const oldest of live.marks.keys()) {
    if (live.marks.size <= SENDERS_MAX) return;
    live.marks.delete(oldest);
    live.forgotSender = true;
  }
}

function placeName({ instance, slot }: { readonly instance: number; readonly slot: number }): string {
  return `${instance}/${slot}`;
}

function compareBinds(a: Bind, b: Bind): number {
  return a.epoch === b.epoch ? a.n - b.n : a.epoch - b.epoch;
}

function slotDescription({ instance, slot, session, correlationId, bind, marks, steps }: Live): SlotDescription {
  return { instance, slot, session, correlationId, bind, marks: [...marks], steps };
}

function endingDescription({ session, correlationId, marks, steps, ending }: Live): EndedSession {
  return { session, correlationId, marks: [...marks], steps, lost: ending === 'lost' };
}
