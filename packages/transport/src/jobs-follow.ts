import { NereidError } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { JobNews, JobState, StoredJob } from './jobs.ts';
import { type EventPage, isBehind, type StoredEvent } from './jobs-event-page.ts';
import { eventMs, type JobEvents } from './jobs-events.ts';
import type { JobListeners } from './jobs-listeners.ts';
import { isOver } from './jobs-stored.ts';

/** After so long without news this is said, and the job looked at, should an event be lost with a connection. */
const QUIET_MS = 15_000;
/** Between two looks while Redis does not answer. */
const RETRY_MS = 1_000;
/** Clocks of producers may differ from that of Redis by so much; else a job's first events are not found. */
const CLOCK_SLACK_MS = 60_000;

export interface JobFollowParts {
  readonly clock: Clock;
  readonly listeners: JobListeners;
  /** Asks Redis, and again if that failed. */
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly find: (model: string, id: string) => Promise<StoredJob | undefined>;
  /** The job's events from that start of XRANGE on. */
  readonly page: (model: string, id: string, start: string) => Promise<EventPage>;
}

/** States that events tell. */
const STATES: ReadonlyMap<string, JobState> = new Map([
  ['waiting', 'waiting'],
  ['delayed', 'delayed'],
  ['active', 'running'],
]);
const ENDS: ReadonlyMap<string, JobState | undefined> = new Map([
  ['completed', 'completed'],
  ['failed', 'failed'],
  ['removed', undefined],
]);

/**
 * Tells a job's news from the events of its queue. What is there is read by pages; what comes later is heard of on the
 * connection that all waiters share, and read as well, so that nothing gathers for a slow reader.
 */
export function createJobFollow({ clock, listeners, ask, find, page }: JobFollowParts) {
  return async function* follow(
    model: string,
    id: string,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<JobNews, void> {
    const reader = createEventReader((start) => ask(() => page(model, id, start)), after);
    const look = () => ask(() => find(model, id));
    /** The first event heard of since the last look. */
    let heard: string | undefined;
    let wake = () => {};
    let listening: { readonly to: JobEvents; readonly stop: () => void } | undefined;
    const waiter = () => wake();
    const leave = listeners.enter(waiter);
    signal.addEventListener('abort', waiter);
    const isLeft = () => signal.aborted || listeners.closed;

    /** Listens; true where it did not before. */
    const listen = async (): Promise<boolean> => {
      const to = listeners.opened(model) ?? (await ask(() => listeners.open(model)));
      if (listening?.to === to) return false;
      listening?.stop();
      heard = undefined;
      const stop = to.follow(id, (event) => {
        heard ??= event;
        wake();
      });
      listening = { to, stop };
      return true;
    };

    const pause = (ms: number) =>
      new Promise<void>((resolve) => {
        const timer = clock.at(clock.nowUs() + ms * 1000, () => wake());
        wake = () => {
          timer.cancel();
          wake = () => {};
          resolve();
        };
        if (heard !== undefined || isLeft() || listeners.opened(model) !== listening?.to) wake();
      });

    /** How it ended, if it has. */
    const ending = async (): Promise<JobNews | undefined> => {
      const { end } = reader;
      if (end === undefined) return undefined;
      const job = await look();
      // Else it is run again.
      return job === undefined || isOver(job.state)
        ? { kind: 'end', event: end.event, job, state: ENDS.get(end.name) }
        : undefined;
    };

    /** From where it was read to; where the job is over and its end no longer told, the end all the same. */
    async function* readOn(job: StoredJob | undefined): AsyncGenerator<JobNews, boolean> {
      yield* reader.read(job);
      const end = (await ending()) ?? (job === undefined || isOver(job.state) ? endOf(job, reader.at) : undefined);
      if (end !== undefined) yield end;
      return end !== undefined;
    }

    try {
      // A job that somebody made up costs no connection.
      const isThere = listeners.opened(model) !== undefined || (await look()) !== undefined;
      if (isThere) await listen();
      const first = isThere ? await look() : undefined;
      if (first === undefined && after === undefined) {
        yield { kind: 'unknown' };
        return;
      }
      let isTold = false;
      for await (const news of reader.read(first)) {
        isTold = true;
        yield news;
      }
      const end = await ending();
      if (end !== undefined) {
        yield end;
        return;
      }
      if (first === undefined || isOver(first.state)) {
        if (first === undefined) yield { kind: 'unknown' };
        else if (isTold) yield endOf(first, reader.at);
        return;
      }

      let isLost = false;
      while (!isLeft()) {
        if (heard === undefined && !isLost) yield { kind: 'quiet' };
        await pause(isLost ? RETRY_MS : QUIET_MS);
        if (isLeft()) return;
        try {
          const isNew = await listen();
          const from = heard;
          heard = undefined;
          if (from !== undefined && !isNew && !isLost) {
            yield* reader.read(undefined, from);
            const told = await ending();
            if (told === undefined) continue;
            yield told;
            return;
          }
          const job = await look();
          const worthReading = isNew || isLost || job === undefined || isOver(job.state);
          isLost = false;
          if (worthReading && (yield* readOn(job))) return;
        } catch (error) {
          if (isLeft()) return;
          if (!(error instanceof NereidError)) throw error;
          isLost = true;
        }
      }
    } finally {
      listening?.stop();
      leave();
      signal.removeEventListener('abort', waiter);
    }
  };
}

function endOf(job: StoredJob | undefined, event: string | undefined): JobNews {
  return { kind: 'end', event, job, state: job?.state };
}

/** Where in a queue's events one job's reader is. */
interface EventReader {
  /** The last event looked at. */
  readonly at: string | undefined;
  /** The latest of the job's events, where that ends it. */
  readonly end: StoredEvent | undefined;
  /** What is behind that; `from`: from a later event on. `job`: as it is, for one whose first events are gone. */
  read(job: StoredJob | undefined, from?: string): AsyncGenerator<JobNews, void>;
}

function createEventReader(page: (start: string) => Promise<EventPage>, after: string | undefined): EventReader {
  let at = after;
  let end: StoredEvent | undefined;
  /** Whether no event is missing; undefined until that is seen. */
  let isWhole: boolean | undefined;

  const isRead = (event: string) => at !== undefined && !isBehind(event, at);

  return {
    get at() {
      return at;
    },
    get end() {
      return end;
    },
    async *read(job, from) {
      let start = from ?? startOf(at, job);
      const judge = (whole: boolean): readonly JobNews[] => {
        if (isWhole !== undefined) return [];
        isWhole = whole;
        return whole || job === undefined ? [] : [{ kind: 'present', job }];
      };
      for (;;) {
        const { first, last, isWhole: isLastPage, events } = await page(start);
        if (after !== undefined) yield* judge(first !== '' && !isBehind(first, after));
        for (const stored of events) {
          if (isRead(stored.event)) continue;
          yield* judge(stored.name === 'added');
          end = ENDS.has(stored.name) ? stored : undefined;
          const news = newsOf(stored);
          if (end === undefined) at = stored.event;
          if (news !== undefined) yield news;
        }
        if (last !== '' && !isRead(last)) at = last;
        if (isLastPage) break;
        start = `(${last}`;
      }
      yield* judge(false);
    },
  };
}

function startOf(at: string | undefined, job: StoredJob | undefined): string {
  if (at !== undefined) return `(${at}`;
  return job === undefined ? '-' : `${Math.max(0, Math.floor(job.createdMs) - CLOCK_SLACK_MS)}-0`;
}

function newsOf({ event, name, data }: StoredEvent): JobNews | undefined {
  const state = STATES.get(name);
  if (state !== undefined) return { kind: 'state', event, state, atMs: eventMs(event) };
  return name === 'progress' ? { kind: 'progress', event, progress: parsed(data) } : undefined;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}
