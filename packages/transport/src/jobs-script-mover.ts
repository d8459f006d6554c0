import { Job, type JobsOptions, type Worker } from 'bullmq';
import {
  EMPTY_PAUSE_MS,
  EMPTY_WAIT_MS,
  failByApi,
  type JobMover,
  type JobMoverParts,
  JobRefusal,
  type MovedJob,
  notesMax,
  TAKES_AT_ONCE_MAX,
  type Taken,
} from './jobs-mover.ts';
import { failureText, isLastFailure } from './jobs-retry.ts';
import { scheduleNext } from './jobs-schedulers.ts';
import type { JobScripts, RawJob } from './jobs-scripts.ts';
import { END_FIELDS } from './jobs-scripts-text.ts';
import { isOutOfMemory } from './redis-connection.ts';

export interface ScriptMoverParts extends JobMoverParts {
  readonly scripts: JobScripts;
  readonly lockMs: number;
  /** Who takes, told in the job. */
  readonly by: string;
}

/** Of one call; Redis does nothing else meanwhile. */
const ENDS_AT_ONCE_MAX = 64;
/** A wait for jobs, in seconds. */
const BLOCK_S_MAX = 5;
const BLOCK_S_MIN = 0.002;

/** BullMQ's options that its end goes by. */
interface KeptOptions {
  readonly removeOnComplete?: unknown;
  readonly removeOnFail?: unknown;
  readonly attempts?: unknown;
  /** `keepLogs`. */
  readonly kl?: unknown;
  /** Of one that a job scheduler has added. */
  readonly repeat?: unknown;
}

interface ScriptedJob extends MovedJob {
  readonly opts: KeptOptions;
  readonly attemptsMade: number;
}

/** Something that waits for the end of the turn. */
interface Waiting<T> {
  readonly args: T;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * By our own scripts: what a turn of the event loop ends is one call, which takes what there is room for by then too.
 * One call that takes is on its way at a time, since whoever counts the room does not know what it brings.
 */
export function createScriptMover(parts: ScriptMoverParts): JobMover {
  const { worker, clock, scripts, by } = parts;
  let ends: Waiting<readonly string[]>[] = [];
  let backs: Waiting<readonly [id: string, token: string]>[] = [];
  let asked:
    | { readonly room: number; readonly tell: (taken: Taken) => void; readonly fail: (e: unknown) => void }
    | undefined;
  let isTaking = false;
  let isDue = false;
  /** When the next delayed job is due, wall-clock milliseconds; 0 for none. */
  let dueMs = 0;
  /** No job may be taken before, by the clock. */
  let limitedUntilUs = 0;
  /** Waits that ended at once since the last job that was found. */
  let emptyWaits = 0;
  /** A job left its place by another script than the one that takes, which may have looked before. */
  let isFreed = false;

  const atTurnsEnd = () => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      flush();
    });
  };

  const flush = () => {
    const some = ends.slice(0, ENDS_AT_ONCE_MAX);
    ends = ends.slice(ENDS_AT_ONCE_MAX);
    if (ends.length > 0) atTurnsEnd();
    if (backs.length > 0) void putBackAll();
    const taking = isTaking ? undefined : asked;
    if (taking !== undefined) asked = undefined;
    // With what ends others may be taken, by whoever waits for a sign of new ones.
    const isWanted = taking !== undefined || some.length > 0 || isFreed;
    const wanted = isTaking || !isWanted ? 0 : parts.room();
    // Where the queue lets so many run at a time, nothing tells who waits that another may.
    isFreed = isTaking && (isFreed || some.length > 0);
    const count = Math.max(0, Math.min(wanted, TAKES_AT_ONCE_MAX));
    if (taking !== undefined && count === 0) taking.tell({ asked: 0, found: 0 });
    if (some.length > 0 || count > 0) void turn(some, count, taking);
  };

  const turn = async (some: typeof ends, count: number, taking: typeof asked) => {
    const token = parts.token();
    if (count > 0) isTaking = true;
    try {
      const answer = await scripts.turn(worker, {
        nowMs: clock.wallMs(),
        token,
        lockMs: parts.lockMs,
        by,
        count,
        ends: some.flatMap(({ args }) => args),
      });
      for (const [index, end] of some.entries()) settle(end, answer.codes[index] ?? 0);
      if (count > 0) {
        isTaking = false;
        // Whoever asked finds that there are more.
        if (answer.jobs.length === count && taking !== undefined) isFreed = false;
        dueMs = answer.dueMs;
        limitedUntilUs = answer.limitMs > 0 ? clock.nowUs() + answer.limitMs * 1000 : 0;
        if (answer.jobs.length > 0) emptyWaits = 0;
        for (const raw of answer.jobs) arrived(scriptedJob(worker, raw, token));
        taking?.tell({ asked: count, found: answer.jobs.length });
      }
    } catch (error) {
      // What is wrong with one job's keys or options would keep the others from ending: each by itself.
      if (some.length > 1 && isScriptError(error)) for (const end of some) void turn([end], 0, undefined);
      else for (const end of some) end.reject(error);
      taking?.fail(error);
    } finally {
      if (count > 0) isTaking = false;
      if (asked !== undefined || isFreed) atTurnsEnd();
    }
  };

  const arrived = (job: ScriptedJob) => {
    if (job.opts.repeat !== undefined) void scheduleNext(worker, job.bull, parts);
    parts.arrived(job);
  };

  const putBackAll = async () => {
    const some = backs;
    backs = [];
    try {
      const codes = await scripts.putBack(
        worker,
        clock.wallMs(),
        some.flatMap(({ args }) => args),
      );
      for (const [index, back] of some.entries()) settle(back, codes[index] ?? 0);
    } catch (error) {
      for (const back of some) back.reject(error);
    }
  };

  const end = (args: readonly string[]) =>
    new Promise<void>((resolve, reject) => {
      ends.push({ args, resolve, reject });
      atTurnsEnd();
    });

  const freed = () => {
    isFreed = true;
    atTurnsEnd();
  };

  return {
    async begin() {
      const own = parts.token();
      const at = own.lastIndexOf(':');
      const ids = await scripts.putBackDead(worker, clock.wallMs(), own.slice(0, at), own.slice(at + 1));
      if (ids.length > 0)
        parts.log.info({ queue: parts.queue, jobs: ids.length }, 'took back the jobs of a former owner');
    },
    take: (room) =>
      new Promise((tell, fail) => {
        asked = { room, tell, fail };
        atTurnsEnd();
      }),
    async wait() {
      const askedUs = clock.nowUs();
      if (limitedUntilUs > askedUs) {
        await parts.pause((limitedUntilUs - askedUs) / 1000);
        return true;
      }
      const leftS = dueMs > 0 ? (dueMs - clock.wallMs()) / 1000 : BLOCK_S_MAX;
      const marker = await waitForMarker(worker, Math.min(BLOCK_S_MAX, Math.max(BLOCK_S_MIN, leftS)));
      if (marker !== null && marker.score > clock.wallMs()) {
        // Of a delayed job: whoever has seen it wakes up for it.
        dueMs = dueMs > 0 ? Math.min(dueMs, marker.score) : marker.score;
        return parts.room() > 0 && clock.nowUs() - askedUs >= EMPTY_WAIT_MS * 1000;
      }
      emptyWaits = clock.nowUs() - askedUs < EMPTY_WAIT_MS * 1000 ? emptyWaits + 1 : 0;
      if (emptyWaits > TAKES_AT_ONCE_MAX) await parts.pause(EMPTY_PAUSE_MS);
      return true;
    },
    async complete(moved, result, note) {
      const job = moved as ScriptedJob;
      const value = JSON.stringify(result) ?? 'null';
      await end(endArgs(job, { target: 'completed', value, remove: job.opts.removeOnComplete, note }));
      return value.length;
    },
    async fail(moved, reason, retry, note) {
      const job = moved as ScriptedJob;
      const attempted = { opts: job.opts as JobsOptions, attemptsMade: job.attemptsMade };
      // When it is tried again is BullMQ's to work out. Any end is one script with its step's gate (R34).
      if (!isLastFailure(attempted, retry)) {
        await failByApi(parts, job, reason, retry, note);
        freed();
        return;
      }
      // Where a stock worker has failed in it stays.
      const trace = job.attemptsMade > 0 ? await traceOf(worker, job.id) : '[]';
      const value = failureText(attempted, reason, retry);
      return end(endArgs(job, { target: 'failed', value, remove: job.opts.removeOnFail, note, trace }));
    },
    async putBack(moved, delayMs) {
      if (delayMs > 0) {
        parts.holdWrites();
        const { id, token } = moved;
        await worker.backend.moveToDelayed(id, clock.wallMs(), delayMs, token, { skipAttempt: true });
        freed();
        return;
      }
      await new Promise<void>((resolve, reject) => {
        backs.push({ args: [moved.id, moved.token], resolve, reject });
        atTurnsEnd();
      });
    },
    async progress({ id, token }, value) {
      parts.holdWrites();
      const code = await scripts.progress(worker, { id, token, value: JSON.stringify(value) });
      if (code < 0) throw new JobRefusal(code);
    },
  };
}

function settle({ resolve, reject }: Waiting<unknown>, code: number): void {
  if (code < 0) reject(new JobRefusal(code));
  else resolve();
}

/** Redis' answer that a command within a script has failed; not for want of memory, which all of them have. */
function isScriptError(error: unknown): boolean {
  return error instanceof Error && error.message.includes('user_script') && !isOutOfMemory(error);
}

/** JSON. By itself: the job's data need not be JSON. */
async function traceOf(worker: Worker, id: string): Promise<string> {
  const client = await worker.backend.client;
  return (await client.hget(worker.toKey(id), 'stacktrace')) ?? '[]';
}

async function waitForMarker(worker: Worker, seconds: number): Promise<{ readonly score: number } | null> {
  try {
    return await worker.backend.waitForJob(seconds);
  } catch (error) {
    // As a worker of BullMQ does, whose connection for this would else stay away.
    if (worker.closing === undefined) await worker.backend.reconnectBlocking();
    throw error;
  }
}

function scriptedJob(worker: Worker, raw: RawJob, token: string): ScriptedJob {
  const [id, data, opts, timestamp, starts, attemptsMade, deferredFailure] = raw;
  let known: Job | undefined;
  const bull = async () => {
    known ??= (await Job.fromId(worker, id)) as Job | undefined;
    if (known === undefined) throw new JobRefusal(-1);
    return known;
  };
  return {
    id,
    data: jsonOf(data),
    opts: (jsonOf(opts) ?? {}) as KeptOptions,
    createdMs: Number(timestamp),
    starts,
    token,
    attemptsMade: Number(attemptsMade),
    deferredFailure: deferredFailure ?? undefined,
    bull,
  };
}

/** A producer may have written anything; undefined is refused as no request. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface JobEnding {
  readonly target: 'completed' | 'failed';
  readonly value: string;
  /** `removeOnComplete` or `removeOnFail`. */
  readonly remove: unknown;
  readonly note: string | undefined;
  readonly trace?: string;
}

function endArgs(job: ScriptedJob, { target, value, remove, note = '', trace = '[]' }: JobEnding): readonly string[] {
  const { count, age, limit } = keepOf(remove);
  const fields: Record<(typeof END_FIELDS)[number], string> = {
    id: job.id,
    token: job.token,
    target,
    value,
    trace,
    keepCount: wholeText(count),
    keepAge: textOf(age),
    keepLimit: wholeText(limit),
    attempts: textOf(job.opts.attempts ?? 0),
    note,
    notesMax: String(notesMax(job.opts.kl)),
  };
  return END_FIELDS.map((field) => fields[field]);
}

/** Redis counts by whole numbers. */
function wholeText(value: unknown): string {
  if (typeof value !== 'number') return '';
  return String(Math.trunc(Math.max(-Number.MAX_SAFE_INTEGER, Math.min(value, Number.MAX_SAFE_INTEGER))));
}

function textOf(value: unknown): string {
  return typeof value === 'number' ? String(value) : '';
}

/** What `removeOnComplete` and `removeOnFail` mean: all are kept, none, so many, or as long. */
function keepOf(remove: unknown): { readonly count?: unknown; readonly age?: unknown; readonly limit?: unknown } {
  if (typeof remove === 'object' && remove !== null) return remove;
  if (typeof remove === 'number') return { count: remove };
  return { count: remove === true ? 0 : -1 };
}
