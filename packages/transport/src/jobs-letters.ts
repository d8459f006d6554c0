/**
 * Dead letters: jobs that failed for what is perhaps not their client's mistake, set aside with their input, reason and
 * history. Each is a job of BullMQ's queue `dead.<model>` under its own id, which nobody takes; it outlives the failed
 * job that it is of.
 */
import { type ErrorInfo, isJsonObject, type JsonObject, QUEUE_TIMEOUT } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { Job, Queue } from 'bullmq';
import { followedJobId, followUpId, isOwnId } from './jobs-names.ts';
import { isOver, jobState } from './jobs-stored.ts';

export interface DeadLetter {
  readonly model: string;
  /** The job's, of its queue. */
  readonly id: string;
  /** `CODE: text`, as its job failed. */
  readonly reason: string;
  /** Of the job, wall-clock milliseconds. */
  readonly createdMs: number;
  readonly diedMs: number;
  readonly attemptsMade: number;
  /** As its producer gave them. */
  readonly data: unknown;
  /** Rows of the job's log, the newest first: what became of each run, as far as that was told. */
  readonly history: readonly unknown[];
}

export type ReplayOutcome =
  /** The job is on its way again, and its letter is gone. */
  | 'replayed'
  /** It is so already: only the letter went. */
  | 'under way'
  /** It has been completed since. The letter stays. */
  | 'completed';

/** All reject with UNAVAILABLE where Redis does not answer. */
export interface DeadLetters {
  /** The model's, the oldest first, from the one behind `after` on; from the first where that is not there. */
  list(model: string, after: string | undefined, limit: number): Promise<readonly DeadLetter[]>;
  find(model: string, id: string): Promise<DeadLetter | undefined>;
  /** The job runs again under its id, with those data or its own; undefined where there is no such letter. */
  replay(model: string, id: string, data?: unknown): Promise<ReplayOutcome | undefined>;
  /** False where there was none. */
  remove(model: string, id: string): Promise<boolean>;
}

/** What puts one aside, before its job is moved to failed. */
export interface Undertaker {
  /** Changes nothing where it is repeated. */
  bury(model: string, job: Job, reason: string, note: string | undefined): Promise<void>;
}

export interface DeadLettersParts {
  readonly clock: Clock;
  /** Asks Redis, and again if that failed. */
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly jobs: (model: string) => Queue;
  readonly letters: (model: string) => Queue;
}

/** Of a model; one more takes the place of the oldest. */
const LETTERS_MAX = 1_000;
const DAYS_30_MS = 2_592_000_000;
/** Letters that go at a time for their age. */
const AGED_AT_ONCE_MAX = 1_000;
const NOTES_READ_MAX = 64;
/** A client's mistakes and wishes: to run them again changes nothing. */
const NOT_BURIED: ReadonlySet<string> = new Set([
  'INVALID_ARG',
  'NOT_FOUND',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
]);

/** Whether a job that has failed so for good becomes a dead letter. A missed deadline is none: its time is over. */
export function isBuried({ code, message }: ErrorInfo): boolean {
  return !NOT_BURIED.has(code) && !message.endsWith(QUEUE_TIMEOUT.message);
}

export function createDeadLetters(parts: DeadLettersParts): DeadLetters & Undertaker {
  const { clock, ask } = parts;

  const read = async (model: string, id: string) =>
    (await parts.letters(model).getJob(followUpId(id))) as Job | undefined;

  const trim = async (queue: Queue) => {
    await queue.clean(DAYS_30_MS, AGED_AT_ONCE_MAX, 'wait');
    const excess = (await queue.getWaitingCount()) - LETTERS_MAX;
    if (excess <= 0) return;
    const oldest = await queue.getJobs(['waiting'], 0, excess - 1, true);
    await Promise.all(oldest.map((letter) => letter.remove()));
  };

  /** Where the letter is still the one that was read: the job may have died again. */
  const drop = async (model: string, letter: Job) => {
    const now = await read(model, followedJobId(letter.id ?? ''));
    if (now?.timestamp === letter.timestamp) await now.remove();
  };

  const runAgain = async (model: string, id: string, letter: Job, data: unknown): Promise<ReplayOutcome> => {
    const queue = parts.jobs(model);
    const job = (await queue.getJob(id)) as Job | undefined;
    if (job !== undefined) {
      const state = jobState(await queue.getJobState(id));
      if (state === 'completed') return 'completed';
      if (!isOver(state)) return 'under way';
    }
    const input = data === undefined ? letter.data.data : data;
    if (job !== undefined && (job.parentKey !== undefined || !isOwnId(id))) {
      // Its parent knows it as it is; and BullMQ adds none with a number for its id.
      await job.updateData(input);
      await job.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true });
      return 'replayed';
    }
    await job?.remove({ removeChildren: false });
    const { delay: _delay, timestamp: _timestamp, ...options } = letter.data.options;
    // From now on, or a deadline would be over already. One of whose number nothing is left gets a new number.
    const own = isOwnId(id) ? { jobId: id } : { jobId: undefined };
    await queue.add(letter.data.name, input, { ...options, ...own, timestamp: Math.floor(clock.wallMs()) });
    return 'replayed';
  };

  return {
    async bury(model, job, reason, note) {
      const id = job.id ?? '';
      const { logs } = await ask(() => parts.jobs(model).getJobLogs(id, 0, NOTES_READ_MAX - 1, false));
      const history = [...(note === undefined ? [] : [note]), ...logs].map(parsed);
      const { name, data, opts: options, timestamp, attemptsMade } = job;
      const letter = { name, data, options, created_ms: timestamp, attempts_made: attemptsMade + 1, reason, history };
      await ask(async () => {
        const queue = parts.letters(model);
        // Of an earlier death.
        await (await read(model, id))?.remove();
        await queue.add('letter', letter, { jobId: followUpId(id) });
        await trim(queue);
      });
    },
    list: (model, after, limit) =>
      ask(async () => {
        const queue = parts.letters(model);
        const ids = await queue.getRanges(['waiting'], 0, LETTERS_MAX - 1, true);
        const start = after === undefined ? 0 : ids.indexOf(followUpId(after)) + 1;
        const read = await Promise.all(ids.slice(start, start + limit).map((id) => queue.getJob(id)));
        return read.filter((letter) => letter !== undefined).map((letter) => deadLetter(model, letter));
      }),
    find: (model, id) =>
      ask(async () => {
        const letter = await read(model, id);
        return letter && deadLetter(model, letter);
      }),
    replay: (model, id, data) =>
      ask(async () => {
        const letter = await read(model, id);
        if (letter === undefined) return undefined;
        const outcome = await runAgain(model, id, letter, data);
        if (outcome !== 'completed') await drop(model, letter);
        return outcome;
      }),
    remove: (model, id) =>
      ask(async () => {
        const letter = await read(model, id);
        await letter?.remove();
        return letter !== undefined;
      }),
  };
}

function deadLetter(model: string, { id: letterId = '', data, timestamp }: Job): DeadLetter {
  const id = followedJobId(letterId);
  // Any client of Redis may add to the queue.
  const letter: JsonObject = isJsonObject(data) ? data : {};
  return {
    model,
    id,
    reason: String(letter.reason ?? ''),
    createdMs: Number(letter.created_ms ?? timestamp),
    diedMs: timestamp,
    attemptsMade: Number(letter.attempts_made ?? 0),
    data: letter.data,
    history: Array.isArray(letter.history) ? letter.history : [],
  };
}

/** A producer may log what is no JSON. */
function parsed(row: string): unknown {
  try {
    return JSON.parse(row);
  } catch {
    return row;
  }
}
