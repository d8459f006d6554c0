import { createLinkedList } from './linked-list.ts';
import type { QueuedRequest } from './schedule.ts';
import type { Session } from './sequence-session.ts';

/** Sessions with slots, by when something last came for them. Each step costs the same however many there are. */
export interface IdleSessions<R extends QueuedRequest> {
  /** Something has come for it: its time begins anew. Times never go back. */
  touch(session: Session<R>, nowUs: number): void;
  forget(session: Session<R>): void;
  /** From now on a time is over only once all has come that was sent until then, which is so up to that time. */
  heard(upToUs: number): void;
  /** Whether to ask now up to when all has come. */
  asks(nowUs: number): boolean;
  /** The time of the session is over. */
  isOver(session: Session<R>, nowUs: number): boolean;
  /** Takes out one whose time is over, if there is one: what it still has waiting or running is done first. */
  shift(nowUs: number): Session<R> | undefined;
  /** When the next one's time is over, or to be asked for again; infinite for never. */
  readonly nextUs: number;
}

/** An answer may be lost. */
const ASK_AGAIN_US = 1_000_000;

/** `idle_us`: max_sequence_idle_microseconds. */
export function createIdleSessions<R extends QueuedRequest>(idle_us: number): IdleSessions<R> {
  const sessions = createLinkedList<Session<R>>();
  /** Undefined where all has come that was sent. */
  let heardUs: number | undefined;
  let askedUs = Number.NEGATIVE_INFINITY;

  const forget = (session: Session<R>) => {
    if (session.idleLink !== undefined) sessions.remove(session.idleLink);
    session.idleLink = undefined;
  };

  const isOver = ({ activeUs }: Session<R>, nowUs: number) => (heardUs ?? nowUs) >= activeUs + idle_us;

  const nextUs = () => {
    const { first } = sessions;
    if (first === undefined) return Number.POSITIVE_INFINITY;
    const overUs = first.value.activeUs + idle_us;
    return heardUs !== undefined && overUs <= askedUs ? askedUs + ASK_AGAIN_US : overUs;
  };

  return {
    touch(session, nowUs) {
      forget(session);
      session.activeUs = nowUs;
      session.idleLink = sessions.push(session);
    },
    forget,
    heard(upToUs) {
      heardUs = upToUs;
    },
    asks(nowUs) {
      if (heardUs === undefined || nextUs() > nowUs) return false;
      askedUs = nowUs;
      return true;
    },
    isOver,
    shift(nowUs) {
      const first = sessions.first?.value;
      if (first === undefined || !isOver(first, nowUs)) return undefined;
      forget(first);
      return first;
    },
    get nextUs() {
      return nextUs();
    },
  };
}
