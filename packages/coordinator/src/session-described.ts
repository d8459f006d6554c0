import type { Bind, EndedSession, ProcessId, SlotDescription } from '@nereid/protocol';
import { isSamePlace, newSession, type Place, raiseMark, type Session, type SessionBook } from './session-book.ts';

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
 * one that was bound later stays and the other is freed (R21). That a session is missing says that it is lost only in
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
    // Not placed yet: its START is on its way to a slot, and that worker is told once it has one.
    if (live.place === undefined) return;
    if (isSamePlace(live.place, place)) mergeMarks(live, slot);
    else if (compareBinds(slot.bind, live.bind) > 0) {
      if (live.place.worker !== worker) acts.free(live.id, live.place.worker);
      mergeMarks(live, slot);
      live.bind = slot.bind;
      acts.bind(live, place);
    } else if (live.place.worker !== worker) acts.free(live.id, worker);
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

function mergeMarks(session: Session, { marks, steps }: Pick<SlotDescription, 'marks' | 'steps'>): void {
  for (const [sender, g] of marks) raiseMark(session.marks, sender, g);
  session.applied = Math.max(session.applied, steps);
}

function compareBinds(a: Bind, b: Bind): number {
  return a.epoch === b.epoch ? a.n - b.n : a.epoch - b.epoch;
}
