import { NereidError, SEQUENCE_TIMEOUT } from '@nereid/protocol';
import { createIdleSessions } from './idle-sessions.ts';
import type { ReadySteps, StepBatch } from './ready-steps.ts';
import type { Decision, InstanceKey, QueuedRequest, SequenceStep, SessionClose, WaitingSession } from './schedule.ts';
import { createSequenceBacklog } from './sequence-backlog.ts';
import { createSequenceInstances, isOpen, type SequenceInstance } from './sequence-instances.ts';
import { createLane, createSession, isQuiet, type Lane, type Session } from './sequence-session.ts';

export interface SequenceLanesOptions<R extends QueuedRequest> {
  /** Of each instance. */
  readonly slots: number;
  /** max_sequence_idle_microseconds. */
  readonly idle_us: number;
  readonly createReadySteps: () => ReadySteps<R>;
  /** Takes the decisions that end sessions, as they are made. */
  readonly decide: (decision: Decision<R>) => void;
}

/** The sessions of one model version: where each is, and what of it may go. */
export interface SequenceLanes<R extends QueuedRequest> {
  /** Steps that wait. */
  readonly waiting: number;
  /** Sessions that live. */
  readonly size: number;
  /** All of them. */
  list(): Iterable<WaitingSession>;
  /** At the end of its session, which the first step opens. */
  arrive(step: R, nowUs: number): void;
  /** At the head of its session. */
  giveBack(step: R, nowUs: number): void;
  /** The sessions of a batch have these steps out. */
  sent(instance: SequenceInstance<R>, batch: StepBatch<R>): void;
  /** A step is out no more; the instance that it was on, undefined where nothing is known of it. */
  over(id: string, ended: boolean, nowUs: number): SequenceInstance<R> | undefined;
  hold(session: string, held: boolean, nowUs: number): void;
  forget(session: string, nowUs: number): void;
  bind(session: string, instance: InstanceKey, slot: number, nowUs: number): void;
  /** See IdleSessions. */
  heard(upToUs: number): void;
  asksHeard(nowUs: number): boolean;
  /** Ends what waits in the backlog, or is idle, for too long. */
  expire(nowUs: number): void;
  /** When something is to expire next, infinite for never. */
  readonly nextExpiryUs: number;
  free(instance: InstanceKey, nowUs: number): void;
  lose(instance: InstanceKey, nowUs: number): void;
  drain(instance: InstanceKey, nowUs: number): void;
  /** Instances that may have something to do: taken away by who looks at them. */
  readonly touched: Set<SequenceInstance<R>>;
  readonly instances: Iterable<SequenceInstance<R>>;
}

/**
 * A session is in the *backlog* until a slot is free for it, then it *has* that slot until it is over. It is *begun*
 * once a step of it was sent: until then it may still go to another slot, where its instance is lost or drains. Of a
 * session one step is out at a time, and the next may go when that one is over; it is *quiet* while nothing of it waits
 * or is out. It ends with its END, when its owner says so, when it is quiet and idle for too long, or with its time in
 * the backlog; or quiet, by the START that has taken its place.
 */
export function createSequenceLanes<R extends QueuedRequest>(options: SequenceLanesOptions<R>): SequenceLanes<R> {
  const { decide } = options;
  const sessions = new Map<string, Session<R>>();
  /** By the ids of their steps, those that wait and those that are out. */
  const byStep = new Map<string, Session<R>>();
  const instances = createSequenceInstances<R>(options.slots, options.createReadySteps);
  const backlog = createSequenceBacklog<R>();
  const idle = createIdleSessions<R>(options.idle_us);
  const touched = new Set<SequenceInstance<R>>();
  let waiting = 0;
  let lanesMade = 0;

  /** Lets the next step of the lane's first session go. */
  const offer = (lane: Lane<R>, returned: boolean, nowUs: number) => {
    const [first] = lane.sessions;
    const step = first?.steps.first?.value;
    if (lane.slot === undefined || lane.offered || step === undefined || first?.inFlight !== undefined) return;
    lane.offered = true;
    lane.slot.instance.ready.add(step, lane.slot.number, returned, nowUs);
    touched.add(lane.slot.instance);
  };

  const withdraw = (lane: Lane<R>, nowUs: number) => {
    const step = lane.sessions[0]?.steps.first?.value;
    if (lane.slot === undefined || !lane.offered || step === undefined) return;
    lane.offered = false;
    lane.slot.instance.ready.remove(step, lane.slot.number, nowUs);
    // Without it others may be a batch.
    touched.add(lane.slot.instance);
  };

  const seated = (lane: Lane<R>, returned: boolean, nowUs: number) => {
    for (const session of lane.sessions) session.timeoutUs = Number.POSITIVE_INFINITY;
    const [first] = lane.sessions;
    if (first !== undefined) idle.touch(first, nowUs);
    offer(lane, returned, nowUs);
  };

  /** Gives free slots to the backlog. */
  const fill = (nowUs: number) => {
    for (let lane = backlog.first; lane !== undefined && instances.seat(lane); lane = backlog.first) {
      backlog.remove(lane);
      seated(lane, false, nowUs);
    }
  };

  /** Takes the lane off where it is, nothing of which has begun, and gives it another place. */
  const move = (lane: Lane<R>, nowUs: number) => {
    unseat(lane, nowUs);
    lane.startedUs = lane.sessions[0]?.startedUs ?? lane.startedUs;
    if (instances.seat(lane)) seated(lane, true, nowUs);
    else backlog.putBack(lane);
  };

  const unseat = (lane: Lane<R>, nowUs: number) => {
    withdraw(lane, nowUs);
    for (const session of lane.sessions) idle.forget(session);
    instances.leave(lane);
  };

  /** To be called when something of the lane has changed. */
  const settle = (lane: Lane<R>, returned: boolean, nowUs: number): void => {
    const [first, heir] = lane.sessions;
    if (first === undefined) {
      backlog.remove(lane);
      instances.leave(lane);
      fill(nowUs);
    } else if (isQuiet(first) && heir !== undefined) {
      drop(first, nowUs);
      settle(lane, returned, nowUs);
    } else if (isQuiet(first)) {
      if (!first.held && idle.isOver(first, nowUs)) close(first, 'idle', nowUs);
    } else if (lane.slot === undefined) {
      backlog.retime(lane);
    } else if (!first.begun && !isOpen(lane.slot.instance)) {
      move(lane, nowUs);
    } else {
      offer(lane, returned, nowUs);
    }
  };

  /** Forgets the session with all that it has; its lane is to be settled. */
  const drop = (session: Session<R>, nowUs: number) => {
    const { id, lane, steps, inFlight } = session;
    if (lane.sessions[0] === session) withdraw(lane, nowUs);
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
      byStep.delete(step.id);
      waiting--;
    }
    if (inFlight !== undefined) byStep.delete(inFlight);
    idle.forget(session);
    sessions.delete(id);
    const at = lane.sessions.indexOf(session);
    lane.sessions.splice(at, 1);
    const [heir] = lane.sessions;
    if (at === 0 && heir !== undefined && lane.slot !== undefined) idle.touch(heir, nowUs);
  };

  const close = (session: Session<R>, why: SessionClose, nowUs: number) => {
    // One that is idle has none.
    for (let link = session.steps.first; link !== undefined; link = link.next) {
      decide({ type: 'reject', request: link.value, error: SEQUENCE_TIMEOUT });
    }
    decide({ type: 'closed', session: session.id, why });
    drop(session, nowUs);
    settle(session.lane, false, nowUs);
  };

  /** The session of the step, which is new if nobody knows it. */
  const sessionOf = (step: R): { readonly session: Session<R>; readonly isNew: boolean } => {
    const { session: id, replaces } = sequenceOf(step);
    const known = sessions.get(id);
    if (known !== undefined) return { session: known, isNew: false };
    const former = replaces === undefined ? undefined : sessions.get(replaces);
    const lane = former?.lane ?? createLane<R>(step.arrivedUs, ++lanesMade);
    const session = createSession(id, lane, step.arrivedUs);
    sessions.set(id, session);
    return { session, isNew: former === undefined };
  };

  const enter = (step: R, session: Session<R>) => {
    if (byStep.has(step.id)) throw new NereidError('INTERNAL', `step ${step.id} is already known`);
    byStep.set(step.id, session);
    waiting++;
  };

  /** Those whose sessions may still go elsewhere, in the order of their STARTs. */
  const moveUnbegun = (instance: SequenceInstance<R>, nowUs: number) => {
    const unbegun = [...instance.lanes.values()].filter(({ sessions: [first] }) => first?.begun === false);
    unbegun.sort(({ sessions: [a] }, { sessions: [b] }) => (a?.startedUs ?? 0) - (b?.startedUs ?? 0));
    for (const lane of unbegun) move(lane, nowUs);
  };

  return {
    touched,
    instances,
    get waiting() {
      return waiting;
    },
    get size() {
      return sessions.size;
    },
    *list() {
      for (const session of sessions.values()) yield listed(session);
    },
    arrive(step, nowUs) {
      const { session, isNew } = sessionOf(step);
      enter(step, session);
      session.steps.push(step);
      session.activeUs = nowUs;
      const { lane } = session;
      if (isNew && instances.seat(lane)) {
        seated(lane, false, nowUs);
        return;
      }
      if (lane.slot === undefined && step.timeoutUs > 0 && !step.patient) {
        session.timeoutUs = Math.min(session.timeoutUs, step.arrivedUs + step.timeoutUs);
      }
      if (isNew) backlog.add(lane);
      else if (lane.slot !== undefined && lane.sessions[0] === session) idle.touch(session, nowUs);
      settle(lane, false, nowUs);
    },
    giveBack(step, nowUs) {
      if (byStep.get(step.id)?.inFlight === step.id) byStep.delete(step.id);
      const { session, isNew } = sessionOf(step);
      const { lane } = session;
      if (lane.sessions[0] === session) withdraw(lane, nowUs);
      if (session.inFlight === step.id) session.inFlight = undefined;
      enter(step, session);
      session.steps.insertBefore(step, session.steps.first);
      if (sequenceOf(step).start) session.begun = false;
      if (isNew) move(lane, nowUs);
      else settle(lane, true, nowUs);
    },
    sent(instance, { slots }) {
      for (const slot of slots) {
        const lane = instance.lanes.get(slot);
        const [session] = lane?.sessions ?? [];
        const step = session?.steps.shift();
        if (lane === undefined || session === undefined || step === undefined) continue;
        lane.offered = false;
        session.inFlight = step.id;
        session.begun = true;
        waiting--;
      }
    },
    over(id, ended, nowUs) {
      const session = byStep.get(id);
      if (session?.inFlight !== id) return undefined;
      const { lane } = session;
      const instance = lane.slot?.instance;
      session.inFlight = undefined;
      byStep.delete(id);
      if (ended) drop(session, nowUs);
      settle(lane, false, nowUs);
      return instance;
    },
    hold(id, held, nowUs) {
      const session = sessions.get(id);
      if (session === undefined) return;
      session.held = held;
      settle(session.lane, false, nowUs);
    },
    forget(id, nowUs) {
      const session = sessions.get(id);
      if (session === undefined) return;
      drop(session, nowUs);
      settle(session.lane, false, nowUs);
    },
    bind(id, key, slot, nowUs) {
      const known = sessions.get(id);
      const holder = instances.get(key)?.lanes.get(slot);
      // What has begun is where it is; so is one that waits behind another.
      if (known?.begun === true || (known !== undefined && known.lane.sessions[0] !== known)) return;
      if (holder !== undefined && holder === known?.lane) {
        known.begun = true;
        return;
      }
      if (holder !== undefined && holder.sessions[0]?.begun !== false) return;
      if (holder !== undefined) unseat(holder, nowUs);
      const lane = known?.lane ?? createLane<R>(nowUs, ++lanesMade);
      const session = known ?? createSession(id, lane, nowUs);
      sessions.set(id, session);
      backlog.remove(lane);
      unseat(lane, nowUs);
      session.begun = true;
      instances.seatAt(lane, instances.ensure(key), slot);
      seated(lane, true, nowUs);
      if (holder !== undefined) move(holder, nowUs);
      fill(nowUs);
    },
    heard: idle.heard,
    asksHeard: idle.asks,
    expire(nowUs) {
      for (let lane = backlog.expired(nowUs); lane !== undefined; lane = backlog.expired(nowUs)) {
        for (const session of [...lane.sessions]) close(session, 'timeout', nowUs);
      }
      for (let session = idle.shift(nowUs); session !== undefined; session = idle.shift(nowUs)) {
        if (isQuiet(session) && !session.held) close(session, 'idle', nowUs);
      }
    },
    get nextExpiryUs() {
      return Math.min(backlog.nextExpiryUs, idle.nextUs);
    },
    free(key, nowUs) {
      const instance = instances.ensure(key);
      instance.known = true;
      instance.free++;
      touched.add(instance);
      fill(nowUs);
    },
    lose(key, nowUs) {
      const instance = instances.get(key);
      if (instance === undefined) return;
      instance.known = false;
      instance.draining = false;
      instance.free = 0;
      instance.ready.lost(nowUs);
      touched.delete(instance);
      moveUnbegun(instance, nowUs);
      instances.forgetUnused(instance);
    },
    drain(key, nowUs) {
      const instance = instances.ensure(key);
      instance.draining = true;
      moveUnbegun(instance, nowUs);
    },
  };
}

function sequenceOf({ id, sequence }: QueuedRequest): SequenceStep {
  if (sequence === undefined) throw new NereidError('INTERNAL', `request ${id} is no step of a sequence`);
  return sequence;
}

function listed<R extends QueuedRequest>({ id, lane, steps, activeUs }: Session<R>): WaitingSession {
  const { slot, sessions } = lane;
  const holds = slot !== undefined && sessions[0]?.id === id;
  return {
    session: id,
    place: holds ? { instance: slot.instance.key, slot: slot.number } : undefined,
    waiting: steps.length,
    lastArrivedUs: activeUs,
  };
}
