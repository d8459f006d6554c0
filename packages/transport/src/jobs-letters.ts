/**
 * Dead letters: jobs that failed for what is perhaps not their client's mistake, set aside with their input, reason and
 * history. Each is a job of BullMQ's queue `dead.<model>` under its own id, which nobody takes; it outlives the failed
 * job that it is of.
 */
import { type ErrorInfo, isJsonObject, type JsonObject, QUEUE_TIMEOUT } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { Job, type Queue } from 'bullmq';
import { followedJobId, followUpId, isOwnId } from './jobs-names.ts';
import type { JobsLink } from './jobs-safe-writes.ts';
import { createdMsOf, isOver, jobState } from './jobs-stored.ts';

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
  /** Its job runs again; the letter of that death goes, as of one that was replayed. */
  exhume(model: string, id: string): Promise<void>;
}

interface Replay {
  readonly model: string;
  readonly id: string;
  readonly data: unknown;
  /** The job that runs again, once it was put: a repeated question puts no second one. */
  readonly added: { id: string | undefined };
}

export interface DeadLettersParts {
  readonly clock: Clock;
  readonly link: JobsLink;
  /** Of what is promised once it resolves. */
  readonly safe: JobsLink;
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
  const { clock, link, safe } = parts;

  const read = (model: string, id: string, by = link) => readLetter(by, model, id);

  const trim = async (queue: Queue) => {
    await queue.clean(DAYS_30_MS, AGED_AT_ONCE_MAX, 'wait');
    const excess = (await queue.getWaitingCount()) - LETTERS_MAX;
    if (excess <= 0) return;
    const oldest = await queue.getJobs(['waiting'], 0, excess - 1, true);
    await Promise.all(oldest.map((letter) => letter.remove()));
  };

  const runAgain = async ({ model, id, data, added }: Replay, letter: Job): Promise<ReplayOutcome> => {
    const queue = safe.queue(model);
    const jobId = added.id ?? id;
    const job = (await queue.getJob(jobId)) as Job | undefined;
    if (job !== undefined) {
      const state = jobState(await queue.getJobState(jobId));
      if (added.id !== undefined && state !== 'failed') return 'replayed';
      if (state === 'completed') return 'completed';
      if (!isOver(state)) return 'under way';
    }
    const input = data === undefined ? letter.data.data : data;
    if (job !== undefined && (job.parentKey !== undefined || !isOwnId(id))) {
      // Its parent knows it as it is; and BullMQ adds none with a number for its id.
      await job.updateData(input);
      await job.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true });
      added.id = jobId;
      return 'replayed';
    }
    await job?.remove({ removeChildren: false });
    const { delay: _delay, timestamp: _timestamp, ...options } = letter.data.options;
    // From now on, or a deadline would be over already. One of whose number nothing is left gets a new number.
    const own = isOwnId(id) ? { jobId: id } : { jobId: undefined };
    const timestamp = Math.floor(clock.wallMs());
    const again = await queue.add(letter.data.name, input, { ...options, ...own, timestamp });
    added.id = again.id;
    await takeHistoryAlong(queue, again.id ?? '', letter);
    return 'replayed';
  };

  return {
    async bury(model, job, reason, note) {
      const id = job.id ?? '';
      const { logs } = await link.ask(() => link.queue(model).getJobLogs(id, 0, NOTES_READ_MAX - 1, false));
      const history = [...(note === undefined ? [] : [note]), ...logs].map(parsed);
      const { name, data, opts: options, timestamp, attemptsMade } = job;
      const letter = { name, data, options, created_ms: timestamp, attempts_made: attemptsMade + 1, reason, history };
      await link.ask(async () => {
        const queue = link.queue(model, 'dead');
        // Of an earlier death.
        await (await read(model, id))?.remove();
        await queue.add('letter', letter, { jobId: followUpId(id) });
        await trim(queue);
      });
    },
    async exhume(model, id) {
      await link.ask(async () => (await read(model, id))?.remove());
    },
    list: (model, after, limit) =>
      link.ask(async () => {
        const queue = link.queue(model, 'dead');
        const ids = await queue.getRanges(['waiting'], 0, LETTERS_MAX - 1, true);
        const start = after === undefined ? 0 : ids.indexOf(followUpId(after)) + 1;
        const read = await Promise.all(ids.slice(start, start + limit).map((id) => queue.getJob(id)));
        return read.filter((letter) => letter !== undefined).map((letter) => deadLetter(model, letter));
      }),
    find: (model, id) =>
      link.ask(async () => {
        const letter = await read(model, id);
        return letter && deadLetter(model, letter);
      }),
    replay(model, id, data) {
      // A repeated question finds what the first has done.
      let outcome: ReplayOutcome | undefined;
      const replay: Replay = { model, id, data, added: { id: undefined } };
      return safe.ask(async () => {
        const letter = await read(model, id, safe);
        if (letter === undefined) return outcome;
        outcome = await runAgain(replay, letter);
        if (outcome !== 'completed') await removeLetter(safe, model, letter);
        return outcome;
      });
    },
    remove(model, id) {
      let wasThere = false;
      return safe.ask(async () => {
        const letter = await read(model, id, safe);
        wasThere ||= letter !== undefined;
        await letter?.remove();
        return wasThere;
      });
    },
  };
}

export async function readLetter({ queue }: JobsLink, model: string, id: string): Promise<Job | undefined> {
  return (await queue(model, 'dead').getJob(followUpId(id))) as Job | undefined;
}

/** Where the letter is still the one that was read: the job may have died again. */
export async function removeLetter(by: JobsLink, model: string, letter: Job): Promise<void> {
  const now = await readLetter(by, model, followedJobId(letter.id ?? ''));
  if (now?.timestamp === letter.timestamp) await now.remove();
}

function deadLetter(model: string, { id: letterId = '', data, timestamp }: Job): DeadLetter {
  const id = followedJobId(letterId);
  // Any client of Redis may add to the queue.
  const letter: JsonObject = isJsonObject(data) ? data : {};
  return {
    model,
    id,
    reason: String(letter.reason ?? ''),
    createdMs: createdMsOf({ timestamp: Number(letter.created_ms ?? timestamp) }),
    diedMs: timestamp,
    attemptsMade: Number(letter.attempts_made ?? 0),
    data: letter.data,
    history: Array.isArray(letter.history) ? letter.history : [],
  };
}

/** So that a later letter tells of all its deaths: the log of a job goes with the job. */
async function takeHistoryAlong(queue: Queue, id: string, letter: Job): Promise<void> {
  const { history } = letter.data as { readonly history?: unknown };
  if (!Array.isArray(history)) return;
  // The newest is the first. Of a job that is over by now and was not kept there is no log.
  const rows = history.toReversed().map((row) => (typeof row === 'string' ? row : JSON.stringify(row)));
  await Promise.allSettled(rows.map((row) => Job.addJobLog(queue, id, row, NOTES_READ_MAX)));
}

/** A producer may log what is no JSON. */
function parsed(row: string): unknown {
  try {
    return JSON.parse(row);
  } catch {
    return row;
  }
}
