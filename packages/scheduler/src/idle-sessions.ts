import { createLinkedList } from './linked-list.ts';
import type { QueuedRequest } from './schedule.ts';
import type { Session } from './sequence-session.ts';

/** Sessions with slots, by when something last came for them. Each step costs the same however many there are. */
export interface IdleSessions<R extends QueuedRequest> {
  /** Something has come for it: its time begins anew. Times never go back. */
  touch(session: Session<R>, nowUs: number): void;
  forget(session: Session<R>): void;
  /** The time of the session is over. */
  isOver(session: Session<R>, nowUs: number): boolean;
  /** Takes out one whose time is over, if there is one: what it still has waiting or running is done first. */
  shift(nowUs: number): Session<R> | undefined;
  /** When the next one's time is over, infinite for never. */
  readonly nextUs: number;
}

/** `idle_us`: max_sequence_idle_microseconds. */
export function createIdleSessions<R extends QueuedRequest>(idle_us: number): IdleSessions<R> {
  const sessions = createLinkedList<Session<R>>();

  const forget = (session: Session<R>) => {
    if (session.idleLink !== undefined) sessions.remove(session.idleLink);
    session.idleLink = undefined;
  };

  const isOver = ({ activeUs }: Session<R>, nowUs: number) => nowUs >= activeUs + idle_us;

  return {
    touch(session, nowUs) {
      forget(session);
      session.activeUs = nowUs;
      session.idleLink = sessions.push(session);
    },
    forget,
    isOver,
    shift(nowUs) {
      const first = sessions.first?.value;
      if (first === undefined || !isOver(first, nowUs)) return undefined;
      forget(first);
      return first;
    },
    get nextUs() {
      const { first } = sessions;
      return first === undefined ? Number.POSITIVE_INFINITY : first.value.activeUs + idle_us;
    },
  };
}
