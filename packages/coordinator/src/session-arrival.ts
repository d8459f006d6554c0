import { type ProcessId, senderOf } from '@nereid/protocol';
import { covers, type Ended, type Session, type SessionBook, type StepArrival } from './session-book.ts';

/** What is to become of a step that came, or that was held and may go now. */
export type StepVerdict =
  | { readonly type: 'hold' }
  /** It is a step of that session. */
  | { readonly type: 'step'; readonly session: Session }
  /** A new session, which ends `replaces` early. */
  | { readonly type: 'start'; readonly id: string; readonly replaces: Session | undefined }
  /** It was applied before its session ended: its worker may have the answer. */
  | { readonly type: 'replay'; readonly ended: Ended }
  /** Its sender is to name that session; null: there is none. `ends`: its sender then ends it, as no step before it is on its way. */
  | { readonly type: 'moved'; readonly current: string | null; readonly ends: boolean }
  /** A job's, and there is no session of its correlation id. */
  | { readonly type: 'needs-start' }
  | { readonly type: 'lost' };

const HOLD: StepVerdict = { type: 'hold' };
const LOST: StepVerdict = { type: 'lost' };

/**
 * Whose step it is (docs/protocol.md R9, R12, R13, R16, R21, R22). `described`: every worker has said what it holds;
 * before that a session that is not known may be at one of them.
 */
export function stepVerdict(book: SessionBook, step: StepArrival, described: boolean): StepVerdict {
  if (step.number >= 0) return numberedVerdict(book, step, described);
  return step.start ? startVerdict(book, step, described) : laterVerdict(book, step, described);
}

/** The session of a START: its sender names it by the request's id. */
export function startedSession({ named, id }: Pick<StepArrival, 'named' | 'id'>): string {
  return named ?? id;
}

/** Its run is found by its correlation id, which is its for ever, and its worker knows what is due (R22). */
function numberedVerdict(book: SessionBook, step: StepArrival, described: boolean): StepVerdict {
  const present = book.present(step.correlationId);
  // Behind an END it may be a copy of a step that was done, which is known once the END is over.
  if (present !== undefined) return present.ending ? HOLD : join(book, step, present);
  const ended = book.lastEnded(step.correlationId);
  if (ended !== undefined) return replayOr(ended, LOST);
  if (!described || !isNext(book, step, undefined)) return HOLD;
  if (step.start) return { type: 'start', id: startedSession(step), replaces: undefined };
  return step.own ? { type: 'needs-start' } : moved(book, step, null);
}

function startVerdict(book: SessionBook, step: StepArrival, described: boolean): StepVerdict {
  const id = startedSession(step);
  const live = book.sessions.get(id);
  if (live !== undefined) return live.ending ? HOLD : { type: 'step', session: live };
  const ended = book.ended(id);
  if (ended !== undefined) return covers(ended.marks, step) ? replayOr(ended, LOST) : LOST;
  if (!described && step.sends > 1) return HOLD;
  const replaces = book.present(step.correlationId);
  // It was lost on its way, and its client has begun anew since.
  if (replaces !== undefined && isLater(replaces.id, step)) return LOST;
  const before = replaces?.marks ?? book.lastEnded(step.correlationId)?.marks;
  return isNext(book, step, before) ? { type: 'start', id, replaces } : HOLD;
}

function laterVerdict(book: SessionBook, step: StepArrival, described: boolean): StepVerdict {
  const present = book.present(step.correlationId);
  const open = present?.ending === true ? undefined : present;
  const elsewhere = () => moved(book, step, open?.id ?? null);
  if (step.named === null) {
    const past = step.own ? book.lastEnded(step.correlationId) : undefined;
    // A job's that is run again, whose sequence has ended since.
    if (past !== undefined && covers(past.marks, step)) return replayOr(past, LOST);
    if (open !== undefined) return step.own ? join(book, step, open) : elsewhere();
    if (present === undefined && book.lastEnded(step.correlationId)?.lost === true) return LOST;
    if (!described) return HOLD;
    return step.own ? { type: 'needs-start' } : elsewhere();
  }
  const live = book.sessions.get(step.named);
  if (live !== undefined) {
    if (live === open) return join(book, step, live);
    // A copy of a step that was done, which is known once the session is over.
    return covers(live.marks, step) ? HOLD : elsewhere();
  }
  const ended = book.ended(step.named);
  if (ended !== undefined) {
    if (covers(ended.marks, step)) return replayOr(ended, LOST);
    return ended.lost ? LOST : elsewhere();
  }
  return described ? elsewhere() : HOLD;
}

/** A gateway takes the word of it for a step only once those before it are answered, and sends it again then (docs/decisions/0027). */
function moved(book: SessionBook, step: StepArrival, current: string | null): StepVerdict {
  return { type: 'moved', current, ends: current === null && isNext(book, step, undefined) };
}

/** Whether the session's START is a later request of the same sender. */
function isLater(session: string, { sender, g }: StepArrival): boolean {
  return senderOf(session) === sender && Number(session.slice(session.lastIndexOf(':') + 1)) > g;
}

function join(book: SessionBook, step: StepArrival, session: Session): StepVerdict {
  return isNext(book, step, session.marks) ? { type: 'step', session } : HOLD;
}

function replayOr(ended: Ended, other: StepVerdict): StepVerdict {
  return ended.place === undefined || ended.lost ? other : { type: 'replay', ended };
}

/** Whether the step before it is over, or will be over first (R16). */
function isNext(book: SessionBook, step: StepArrival, marks: ReadonlyMap<ProcessId, number> | undefined): boolean {
  const { sender, prev, low } = step;
  if (prev === 0 || prev < low) return true;
  if (marks !== undefined && covers(marks, { sender, g: prev })) return true;
  const id = `${sender}:${prev}`;
  const before = book.steps.get(id);
  if (before !== undefined) return before.state === 'queued' || before.state === 'sent';
  return book.settled(id);
}
