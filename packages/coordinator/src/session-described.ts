import type { Bind, EndedSession, ProcessId, SlotDescription } from '@nereid/protocol';
import {
  covers,
  isSamePlace,
  newSession,
  type Place,
  raiseMark,
  type Session,
  type SessionBook,
} from './session-book.ts';

/** What a worker says that it holds of the sequences of a model version, all of it. */
export interface DescribedSessions {
  readonly worker: ProcessId;
  readonly slots: readonly SlotDescription[];
  readonly ended: readonly EndedSession[];
  /** Ids of the requests that it runs. */
  readonly running: ReadonlySet<string>;
  /** The last batch sent when it was asked; undefined where nobody asked. */
  readonly sentUpTo: number | undefined;
}

export interface DescribedActs {
  /** The session has that slot, which the scheduler is to know. */
  bind(session: Session, place: Place): void;
  /** The worker has a slot for a session that is not wanted there. */
  free(session: string, worker: ProcessId): void;
  lose(session: Session): void;
  /** Another has its correlation id. */
  supersede(session: Session): void;
}

/**
 * Takes over what a worker holds (docs/protocol.md R9). Of two slots for one session, or for one correlation id, the
 * one that was bound later stays and the other is freed (R21); that one alone knows of steps that were done behind the
 * START, and the session is lost. That a session is missing says that it is lost only in
 * the answer to a question that was asked after its last batch was sent.
 */
export function takeDescribed(
  book: SessionBook,
  described: DescribedSessions,
  nowUs: number,
  acts: DescribedActs,
): void {
  const { worker, slots, ended, running, sentUpTo } = described;
  // First what is over, so that others can have its slots.
  for (const session of ended) takeEnded(book, worker, session, nowUs, acts);
  if (sentUpTo !== undefined) {
    const listed = new Set([...slots, ...ended].map(({ session }) => session));
    for (const session of [...book.sessions.values()]) {
      if (session.place?.worker !== worker || session.lastBatch > sentUpTo || listed.has(session.id)) continue;
      if (![...session.steps.keys()].some((id) => running.has(id))) acts.lose(session);
    }
  }
  for (const slot of slots) takeSlot(book, worker, slot, nowUs, acts);
}

function takeSlot(
  book: SessionBook,
  worker: ProcessId,
  slot: SlotDescription,
  nowUs: number,
  acts: DescribedActs,
): void {
  const place = { worker, instance: slot.instance, slot: slot.slot };
  const live = book.sessions.get(slot.session);
  if (live !== undefined) {
    const other = live.startCameBack ? undefined : live.place;
    if (other !== undefined && isSamePlace(other, place)) mergeMarks(live, slot);
    // It is to get a slot anew, since nothing of it was known to be done: it has one.
    else if (other === undefined || compareBinds(slot.bind, live.bind) > 0) {
      if (other !== undefined && live.applied > 1 && lacks(new Map(slot.marks), live.marks)) {
        acts.supersede(live);
        acts.free(live.id, worker);
        return;
      }
      if (other !== undefined && other.worker !== worker) acts.free(live.id, other.worker);
      mergeMarks(live, slot);
      live.bind = slot.bind;
      acts.bind(live, place);
    } else if (other.worker !== worker) {
      // What it has there now lacks what was done here.
      if (slot.steps > 1 && lacks(live.marks, slot.marks)) acts.supersede(live);
      acts.free(live.id, worker);
    }
    return;
  }
  const present = book.present(slot.correlationId);
  if (book.ended(slot.session) !== undefined || (present !== undefined && compareBinds(present.bind, slot.bind) > 0)) {
    acts.free(slot.session, worker);
    return;
  }
  if (present !== undefined) acts.supersede(present);
  const session = newSession(slot.session, slot.correlationId, slot.bind, nowUs);
  mergeMarks(session, slot);
  book.open(session);
  acts.bind(session, place);
}

function takeEnded(
  book: SessionBook,
  worker: ProcessId,
  ended: EndedSession,
  nowUs: number,
  acts: DescribedActs,
): void {
  const live = book.sessions.get(ended.session);
  if (live !== undefined) {
    if (live.place?.worker !== worker) return;
    mergeMarks(live, ended);
    if (ended.lost) acts.lose(live);
    return;
  }
  if (book.ended(ended.session) !== undefined) return;
  const { session, correlationId, marks, lost } = ended;
  // Any instance of the worker does: what it is sent there is only answered.
  book.remember({ session, correlationId, marks: new Map(marks), place: { worker, instance: 0 }, lost, atUs: nowUs });
}

/** Whether something was done that these marks do not tell of. */
function lacks(marks: ReadonlyMap<ProcessId, number>, done: Iterable<readonly [ProcessId, number]>): boolean {
  for (const [sender, g] of done) if (!covers(marks, { sender, g })) return true;
  return false;
}

function mergeMarks(session: Session, { marks, steps }: Pick<SlotDescription, 'marks' | 'steps'>): void {
  for (const [sender, g] of marks) raiseMark(session.marks, sender, g);
  session.applied = Math.max(session.applied, steps);
}

function compareBinds(a: Bind, b: Bind): number {
  return a.epoch === b.epoch ? a.n - b.n : a.epoch - b.epoch;
}
