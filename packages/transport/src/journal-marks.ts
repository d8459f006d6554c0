/** Ends of recordings on their way to Redis, kept until it has heard them. */
import type { RecordingState } from '@nereid/protocol';

/** More are forgotten: their recordings stay open until they run out. */
const MARKS_MAX = 10_000;
const MARKS_PER_CALL = 256;
/** Recordings that are known to be over; of one that was forgotten Redis tells it again. */
const OVER_MAX = 10_000;

export interface Mark {
  readonly id: string;
  readonly model: string;
  readonly worker: string;
  readonly state: Exclude<RecordingState, 'open'>;
  /** Of a gap: the last step that was not sent, or was and may have been kept. */
  readonly last?: number;
}

export interface JournalMarks {
  /** One that tells of a gap stays, whatever end comes later. */
  add(mark: Mark): void;
  /** True for a step that is not to be sent: its recording is over, or has a gap, which then reaches to it. */
  skips(id: string, step: number): 'over' | 'gap' | undefined;
  isOver(id: string): boolean;
  over(id: string): void;
  /** The recording begins anew. */
  forget(id: string): void;
  /** Sends what waits, and resolves once it was sent or Redis did not take it, which the next call makes up for. */
  flush(): Promise<void>;
}

interface Waiting {
  readonly mark: Mark;
  last: number | undefined;
}

/** `send`: marks of one model; resolves with which of them are over, undefined where it is of no use to try again. */
export function createJournalMarks(
  send: (marks: readonly Mark[]) => Promise<readonly boolean[] | undefined>,
): JournalMarks {
  const waiting = new Map<string, Waiting>();
  const ended = new Set<string>();
  let sending: Promise<void> | undefined;

  const noteOver = (id: string) => {
    ended.delete(id);
    ended.add(id);
    if (ended.size <= OVER_MAX) return;
    for (const oldest of ended) {
      ended.delete(oldest);
      break;
    }
  };

  const nextCall = (): readonly Waiting[] => {
    const next: Waiting[] = [];
    for (const entry of waiting.values()) {
      if (entry.mark.model === (next[0] ?? entry).mark.model) next.push(entry);
      if (next.length === MARKS_PER_CALL) break;
    }
    return next;
  };

  const sendAll = async () => {
    try {
      await sendWaiting();
    } catch {
      // What Redis did not hear waits for the next flush.
    }
    sending = undefined;
  };
  const sendWaiting = async () => {
    for (let next = nextCall(); next.length > 0; next = nextCall()) {
      const sent = next.map(({ mark, last }) => (last === undefined ? mark : { ...mark, last }));
      const over = await send(sent);
      for (const [index, entry] of next.entries()) {
        const { id } = entry.mark;
        // It has begun anew.
        if (waiting.get(id) !== entry) continue;
        if (over?.[index] === true) noteOver(id);
        // Else more steps were left out meanwhile.
        if (over?.[index] !== false || entry.last === sent[index]?.last) waiting.delete(id);
      }
    }
  };

  return {
    add(mark) {
      const { id, state } = mark;
      const known = waiting.get(id);
      if (known?.mark.state === 'gap') {
        if (state === 'gap') known.last = Math.max(mark.last ?? 0, known.last ?? 0);
        return;
      }
      if (known !== undefined || waiting.size < MARKS_MAX) waiting.set(id, { mark, last: mark.last });
    },
    skips(id, step) {
      if (ended.has(id)) return 'over';
      const known = waiting.get(id);
      if (known?.mark.state !== 'gap') return undefined;
      known.last = Math.max(step, known.last ?? 0);
      return 'gap';
    },
    isOver: (id) => ended.has(id),
    over: noteOver,
    forget(id) {
      waiting.delete(id);
      ended.delete(id);
    },
    flush() {
      if (waiting.size > 0) sending ??= sendAll();
      return sending ?? Promise.resolve();
    },
  };
}
