/**
 * Sequences that have ended, remembered so that a late copy of one of their steps gets its answer, or is told that it is
 * lost, and never begins or changes anything (docs/protocol.md R13, R20).
 */
import type { EndedSession, ProcessId } from '@nereid/protocol';
import type { AnswerWindow } from './kept-answers.ts';

export interface RememberedSession extends Omit<EndedSession, 'marks'> {
  readonly marks: ReadonlyMap<ProcessId, number>;
  readonly answers: AnswerWindow;
  readonly endedUs: number;
}

export interface EndedSessions {
  get(session: string): RememberedSession | undefined;
  add(ended: RememberedSession): void;
  /** Forgets those whose time is over. */
  prune(nowUs: number): void;
  clear(): void;
  describe(): readonly EndedSession[];
}

/** The longest that a request may still be under way, and 2 s (docs/protocol.md, tombstone). */
const REMEMBERED_US_MIN = 10_000_000;
/** Those that are older and may still be asked for. */
const OLD_MAX = 64;
/** All together: beyond it the oldest goes before its time. */
const ENDED_MAX = 1_024;

/** `settled`: whether a sender is known to wait for nothing up to that mark. */
export function createEndedSessions(settled: (sender: ProcessId, mark: number) => boolean): EndedSessions {
  /** In the order in which they ended. */
  const sessions = new Map<string, RememberedSession>();

  const forget = (ended: RememberedSession) => {
    ended.answers.clear();
    sessions.delete(ended.session);
  };

  const isSettled = ({ marks }: RememberedSession) => {
    for (const [sender, mark] of marks) if (!settled(sender, mark)) return false;
    return true;
  };

  return {
    get: (session) => sessions.get(session),
    add(ended) {
      sessions.set(ended.session, ended);
      for (const oldest of sessions.values()) {
        if (sessions.size <= ENDED_MAX) return;
        forget(oldest);
      }
    },
    prune(nowUs) {
      for (const ended of sessions.values()) {
        if (nowUs - ended.endedUs < REMEMBERED_US_MIN) return;
        if (sessions.size > OLD_MAX || isSettled(ended)) forget(ended);
      }
    },
    clear() {
      for (const ended of sessions.values()) forget(ended);
    },
    describe: () =>
      [...sessions.values()].map(({ session, correlationId, marks, steps, lost }) => ({
        session,
        correlationId,
        marks: [...marks],
        steps,
        lost,
      })),
  };
}
