import type { Bind, ProcessId } from '@nereid/protocol';

/** A step as its sender told it last. */
export interface StepArrival {
  readonly id: string;
  readonly sender: ProcessId;
  /** As in `infer`. */
  readonly g: number;
  readonly low: number;
  readonly prev: number;
  /** The session that it names, null where its sender knows none. */
  readonly named: string | null;
  /** The client's own step number, -1 for none. */
  readonly number: number;
  readonly correlationId: bigint | string;
  readonly start: boolean;
  readonly end: boolean;
  /** How often it has been sent, from 1. */
  readonly sends: number;
  /** Of a job: this owner is its sender. */
  readonly own: boolean;
}

/** The slot of a sequence. */
export interface Place {
  readonly worker: ProcessId;
  readonly instance: number;
  readonly slot: number;
}

/**
 * Where a step is. *Held*: it waits for another step, for workers, or with its session for data. *Queued*: the
 * scheduler has it. *Sent*: in a batch. *Elsewhere*: in a batch of an earlier owner. *Blob*: its data are lost and
 * its sender is to send it again.
 */
export type StepState = 'held' | 'queued' | 'sent' | 'elsewhere' | 'blob';

export interface KnownStep {
  arrival: StepArrival;
  /** Undefined while it is held and not known to be of any. */
  session: Session | undefined;
  state: StepState;
  /** Since when it is held or waits for its data, microseconds. */
  heldUs: number;
}

/** A live sequence. */
export interface Session {
  readonly id: string;
  readonly correlationId: bigint | string;
  bind: Bind;
  /** Undefined until the scheduler gives it a slot. */
  place: Place | undefined;
  /** Its START came back from there and goes wherever there is room; the worker may have run it all the same. */
  startCameBack: boolean;
  /** The highest g that was applied, by sender. */
  readonly marks: Map<ProcessId, number>;
  applied: number;
  /** Without an outcome, in the order in which they came. */
  readonly steps: Map<string, KnownStep>;
  /** Of those: elsewhere, or without their data. What comes meanwhile is held. */
  blocking: number;
  /** The scheduler knows it. */
  scheduled: boolean;
  /** Since then it was told that steps of it are held. */
  held: boolean;
  /** The last batch with a step of it that this owner sent; 0 for none. */
  lastBatch: number;
  /** Its END has been taken: what comes after needs a START. */
  ending: boolean;
  /** Another has its correlation id, and its slot once its steps are over. */
  replaced: boolean;
  /** Its client numbers its steps, and asks for one again where it does not know of it (docs/protocol.md R22). */
  numbered: boolean;
  /** When it began, or was first heard of. */
  readonly openedUs: number;
}

/** What is known of a sequence where it may not be the only one of its correlation id. */
export interface KnownSequence {
  /** It goes on. */
  readonly live: boolean;
  /** When it began or was first heard of; of one that is over, when it ended. */
  readonly sinceUs: number;
}

/** A sequence that is over. */
export interface Ended {
  readonly session: string;
  readonly correlationId: bigint | string;
  readonly marks: Map<ProcessId, number>;
  /** Where its answers may be kept; undefined where they are not. */
  place: Omit<Place, 'slot'> | undefined;
  /** Its state was lost in the middle of it. */
  lost: boolean;
  readonly atUs: number;
}

/** Sequences that are over and steps with an outcome that are remembered at most, and how long. */
const ENDED_MAX = 4096;
const ENDED_KEPT_US = 60_000_000;

/** All that the desk of a model version knows: its sessions, those that are over, and the steps without an outcome. */
export interface SessionBook {
  readonly sessions: ReadonlyMap<string, Session>;
  /** Without an outcome, in the order in which they came. */
  readonly steps: Map<string, KnownStep>;
  /** The live session that was started last with the correlation id. */
  present(correlationId: bigint | string): Session | undefined;
  open(session: Session): void;
  /** It is over. */
  close(session: Session, lost: boolean, nowUs: number): void;
  ended(session: string): Ended | undefined;
  /** Of those with the correlation id the one that ended last. */
  lastEnded(correlationId: bigint | string): Ended | undefined;
  remember(ended: Ended): void;
  /** Their answers are gone with that worker. */
  forgetAnswers(worker: ProcessId): void;
  /** The step has an outcome that no mark tells of. */
  settle(id: string): void;
  settled(id: string): boolean;
}

export function createSessionBook(): SessionBook {
  const sessions = new Map<string, Session>();
  const present = new Map<bigint | string, Session>();
  const endedSessions = new Map<string, Ended>();
  const lastEnded = new Map<bigint | string, Ended>();
  const settledIds = new Set<string>();

  const forget = (ended: Ended) => {
    endedSessions.delete(ended.session);
    if (lastEnded.get(ended.correlationId) === ended) lastEnded.delete(ended.correlationId);
  };

  const remember = (ended: Ended) => {
    for (const oldest of endedSessions.values()) {
      if (endedSessions.size < ENDED_MAX && ended.atUs - oldest.atUs < ENDED_KEPT_US) break;
      forget(oldest);
    }
    endedSessions.set(ended.session, ended);
    lastEnded.set(ended.correlationId, ended);
  };

  return {
    sessions,
    steps: new Map(),
    present: (correlationId) => present.get(correlationId),
    open(session) {
      sessions.set(session.id, session);
      present.set(session.correlationId, session);
    },
    close(session, lost, atUs) {
      const { id, correlationId, marks, place } = session;
      sessions.delete(id);
      if (present.get(correlationId) === session) present.delete(correlationId);
      remember({ session: id, correlationId, marks, place, lost, atUs });
    },
    ended: (session) => endedSessions.get(session),
    lastEnded: (correlationId) => lastEnded.get(correlationId),
    remember,
    forgetAnswers(worker) {
      for (const ended of endedSessions.values()) if (ended.place?.worker === worker) ended.place = undefined;
    },
    settle(id) {
      const [oldest] = settledIds;
      if (settledIds.size >= ENDED_MAX && oldest !== undefined) settledIds.delete(oldest);
      settledIds.add(id);
    },
    settled: (id) => settledIds.has(id),
  };
}

export function newSession(id: string, correlationId: bigint | string, bind: Bind, openedUs: number): Session {
  return {
    id,
    correlationId,
    bind,
    place: undefined,
    startCameBack: false,
    marks: new Map(),
    applied: 0,
    steps: new Map(),
    blocking: 0,
    scheduled: false,
    held: false,
    lastBatch: 0,
    ending: false,
    replaced: false,
    numbered: false,
    openedUs,
  };
}

export function knownSequence(live: Session | undefined, ended: Ended | undefined): KnownSequence | undefined {
  if (live !== undefined) return { live: !live.ending, sinceUs: live.openedUs };
  return ended === undefined ? undefined : { live: false, sinceUs: ended.atUs };
}

/** Whether the step was applied, as its sequence's marks say (docs/protocol.md R14). */
export function covers(
  marks: ReadonlyMap<ProcessId, number>,
  { sender, g }: Pick<StepArrival, 'sender' | 'g'>,
): boolean {
  return (marks.get(sender) ?? 0) >= g;
}

export function raiseMark(marks: Map<ProcessId, number>, sender: ProcessId, g: number): void {
  if ((marks.get(sender) ?? 0) < g) marks.set(sender, g);
}

export function isSamePlace(a: Place, b: Place): boolean {
  return a.worker === b.worker && a.instance === b.instance && a.slot === b.slot;
}
