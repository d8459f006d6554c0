import type { Clock, Log } from '@nereid/runtime';
import { Job, UnrecoverableError, type Worker } from 'bullmq';
import type { TakenJob } from './jobs.ts';
import { failureText, isLastFailure } from './jobs-retry.ts';

/** A job that was taken, under a lock. */
export interface MovedJob extends TakenJob {
  readonly token: string;
  /** As BullMQ has it. Rejects with a `JobRefusal` where it is gone. */
  bull(): Promise<Job>;
}

/** What was asked for by one take, and how many came; fewer where there are no more. */
export interface Taken {
  readonly asked: number;
  readonly found: number;
}

/**
 * Moves a queue's jobs. One by BullMQ's public API (here) and one by our own scripts (jobs-script-mover.ts) do the same.
 * What ends a job rejects with an error with a numeric `code` where the job is not held under its token (any more), with
 * another where Redis did not answer, and then may be repeated. Jobs that were taken are given to `arrived`.
 */
export interface JobMover {
  /** Once, before anything is taken. May be repeated where it rejects. */
  begin(): Promise<void>;
  /** Those that are there now, no more than there is room for. */
  take(room: number): Promise<Taken>;
  /** Resolves once there may be more, or after some seconds. False where it has looked itself, and there are none. */
  wait(): Promise<boolean>;
  /** Resolves with about how many bytes its event has. */
  complete(job: MovedJob, result: unknown, note?: string): Promise<number>;
  /** `retry`: as its attempts and backoff say. */
  fail(job: MovedJob, reason: string, retry: boolean, note?: string): Promise<void>;
  /** After that time. Of those put back in one turn, the first is the first to be taken again. */
  putBack(job: MovedJob, delayMs: number): Promise<void>;
  /** As the above of a job that is not held under its token any more. */
  progress(job: MovedJob, value: unknown): Promise<void>;
}

export interface JobMoverParts {
  readonly worker: Worker;
  readonly clock: Clock;
  readonly log: Log;
  /** Its name, for logs. */
  readonly queue: string;
  /** Called before commands of which there may be more in this turn: they go together. */
  readonly holdWrites: () => void;
  /** `<owner>:<epoch>`. */
  readonly token: () => string;
  readonly arrived: (job: MovedJob) => void;
  /** Nobody else takes jobs from this Redis, so any other owner is dead, whatever its epoch. */
  readonly alone: boolean;
  /** How many more jobs would be taken now. */
  readonly room: () => number;
  /** Waits so long, or until there may be something to do. */
  readonly pause: (ms: number) => Promise<void>;
}

/** Redis' answer that the job is not ours to end, by the number that BullMQ's scripts give it. */
export class JobRefusal extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`refused with ${code}`);
    this.code = code;
  }
}

/** BullMQ's scripts refuse with a number: no such job, not its lock, not running. */
export function isJobRefusal(error: unknown): boolean {
  return typeof (error as { readonly code?: unknown }).code === 'number';
}

/** BullMQ's number for a lock that is not there (any more). */
const LOCK_LOST = -2;
/** Jobs that are asked for at a time, at most. */
export const TAKES_AT_ONCE_MAX = 16;
/** Rows of a job's log, unless its producer, who may write some too, has said how many (`keepLogs`). */
export const NOTES_MAX = 64;
/** Waits for jobs that end at once (a rate limit, a marker of a delayed job) are not repeated sooner. */
export const EMPTY_PAUSE_MS = 20;
/** Milliseconds below which a wait counts as none. */
export const EMPTY_WAIT_MS = 5;

/** By BullMQ's public API: one command for each job and move. */
export function createApiMover(parts: JobMoverParts): JobMover {
  const { worker, clock } = parts;
  const noted = new WeakSet<MovedJob>();
  let backs: (() => void)[] = [];
  /** So many are asked for at a time, while as many as were asked for are there. */
  let likely = 1;
  /** Waits since the last job that ended at once with none. */
  let emptyWaits = 0;
  let isWaiting = false;
  let isLooking = false;
  /** Jobs left their places since the last look. */
  let isFreed = false;

  const arrived = (job: Job, token: string) => {
    const { id, data, timestamp, attemptsStarted, deferredFailure } = job;
    if (id === undefined) return;
    const bull = async () => job;
    parts.arrived({ id, data, createdMs: timestamp, starts: attemptsStarted, token, deferredFailure, bull });
  };

  const putBackAll = () => {
    const some = backs.reverse();
    backs = [];
    parts.holdWrites();
    for (const back of some) back();
  };

  /** A job runs no more: where the queue lets so many run at a time, nothing tells who waits that another may. */
  const freed = async () => {
    isFreed = true;
    if (!isWaiting || isLooking) return;
    isLooking = true;
    try {
      while (isFreed && parts.room() > 0) {
        isFreed = false;
        const token = parts.token();
        const job = (await worker.getNextJob(token, { block: false })) as Job | undefined;
        if (job === undefined) continue;
        isFreed = true;
        arrived(job, token);
      }
    } catch (error) {
      parts.log.debug({ queue: parts.queue, err: error }, 'no look for a job, waiting for more');
    } finally {
      isLooking = false;
    }
  };

  const putBackNow = (job: Job, token: string) =>
    new Promise<void>((resolve, reject) => {
      backs.push(() => void job.moveToWait(token).then(() => resolve(), reject));
      if (backs.length === 1) setImmediate(putBackAll);
    });

  return {
    async begin() {
      // Else they stay until their locks run out, and come back in any order: a sequence's later steps would run first.
      const dead = await deadJobs(parts);
      if (dead.length === 0) return;
      parts.log.info({ queue: parts.queue, jobs: dead.length }, 'taking back the jobs of a former owner');
      const done = await Promise.allSettled(dead.map(([job, token]) => putBackNow(job, token)));
      // Whose lock ran out meanwhile is BullMQ's to find.
      const failure = done.find((end) => end.status === 'rejected' && !isJobRefusal(end.reason));
      if (failure?.status === 'rejected') throw failure.reason;
    },
    async take(room) {
      const token = parts.token();
      const asked = Math.min(room, likely);
      isFreed = false;
      parts.holdWrites();
      const looks = await Promise.allSettled(
        Array.from({ length: asked }, () => worker.getNextJob(token, { block: false }) as Promise<Job | undefined>),
      );
      const came = looks.flatMap((look) => (look.status === 'fulfilled' ? (look.value ?? []) : []));
      if (came.length > 0) emptyWaits = 0;
      for (const job of came) arrived(job, token);
      // Not before the others are held: nobody else would renew their locks.
      const failed = looks.find((look) => look.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
      const found = came.length;
      likely = found === asked ? Math.min(likely * 2, TAKES_AT_ONCE_MAX) : Math.max(1, found);
      return { asked, found };
    },
    async wait() {
      if (isFreed) return true;
      const token = parts.token();
      const askedUs = clock.nowUs();
      isWaiting = true;
      const waited = worker.getNextJob(token).finally(() => {
        isWaiting = false;
      });
      const job = (await waited) as Job | undefined;
      if (job !== undefined) arrived(job, token);
      // Each job that is taken leaves a marker that there may be more, and the next wait ends with that.
      const isEmpty = job === undefined && clock.nowUs() - askedUs < EMPTY_WAIT_MS * 1000;
      emptyWaits = isEmpty ? emptyWaits + 1 : 0;
      if (emptyWaits > 1) await parts.pause(EMPTY_PAUSE_MS);
      return job !== undefined;
    },
    async complete(moved, result, note) {
      const job = await moved.bull();
      // A repeated end finds its note there.
      if (note !== undefined && !noted.has(moved)) putDown(parts, job, note);
      noted.add(moved);
      parts.holdWrites();
      await job.moveToCompleted(result, moved.token, false);
      void freed();
      return JSON.stringify(result)?.length ?? 0;
    },
    async fail(job, reason, retry, note) {
      const first = noted.has(job) ? undefined : note;
      noted.add(job);
      await failByApi(parts, job, reason, retry, first);
      void freed();
    },
    async putBack(moved, delayMs) {
      const job = await moved.bull();
      if (delayMs > 0) {
        parts.holdWrites();
        await job.moveToDelayed(clock.wallMs() + delayMs, moved.token);
        void freed();
        return;
      }
      await putBackNow(job, moved.token);
    },
    async progress(moved, value) {
      const job = await moved.bull();
      const client = await worker.backend.client;
      parts.holdWrites();
      // BullMQ takes progress from anybody. The moment in between is too short for a lock to run out and be taken, mostly.
      if ((await client.get(`${worker.toKey(moved.id)}:lock`)) !== moved.token) throw new JobRefusal(LOCK_LOST);
      parts.holdWrites();
      await job.updateProgress(value as object);
    },
  };
}

/** Running jobs that a former owner's lock holds, the oldest first, with that lock's token. */
async function deadJobs({ worker, token, alone }: JobMoverParts): Promise<readonly (readonly [Job, string])[]> {
  const client = await worker.backend.client;
  // The newest is at the head.
  const ids = (await client.lrange(worker.toKey('active'), 0, -1)).reverse();
  const locks = await Promise.all(ids.map((id) => client.get(`${worker.toKey(id)}:lock`)));
  const held = ids.flatMap((id, at) => {
    const lock = locks[at];
    return lock && isFormerOwner(lock, token(), alone) ? [{ id, lock }] : [];
  });
  const jobs = await Promise.all(held.map(({ id }) => Job.fromId(worker, id)));
  return held.flatMap(({ lock }, at) => {
    const job = jobs[at];
    return job === undefined ? [] : [[job, lock] as const];
  });
}

const TOKEN = /^(co-[^:]+):(\d+)$/;

/**
 * Whether a lock is that of an earlier owner of the model: a token is `<owner>:<epoch>`, the owner's id begins with
 * `co-`; others are a stock worker's. The same rule is in Lua (jobs-scripts-text.ts).
 */
function isFormerOwner(lock: string, own: string, alone: boolean): boolean {
  const [, owner, epoch] = TOKEN.exec(lock) ?? [];
  const [, self, current] = TOKEN.exec(own) ?? [];
  if (owner === undefined) return false;
  return Number(epoch) < Number(current) || (alone && owner !== self);
}

/** With the command that ends the job, before it: a note that gets lost is not worth a wait. */
function putDown({ worker, holdWrites, log, queue }: JobMoverParts, { id = '', opts }: Job, note: string): void {
  holdWrites();
  Job.addJobLog(worker, id, note, notesMax(opts.keepLogs)).catch((error) =>
    log.debug({ queue, err: error, job: id }, 'job note lost'),
  );
}

/** How many rows of its log a job of that `keepLogs` keeps. */
export function notesMax(keepLogs: unknown): number {
  if (typeof keepLogs !== 'number' || !(keepLogs >= 1)) return NOTES_MAX;
  return Math.min(Math.floor(keepLogs), Number.MAX_SAFE_INTEGER);
}

export async function failByApi(
  parts: JobMoverParts,
  moved: MovedJob,
  reason: string,
  retry: boolean,
  note?: string,
): Promise<void> {
  const job = await moved.bull();
  if (note !== undefined) putDown(parts, job, note);
  const text = failureText(job, reason, retry);
  const error = isLastFailure(job, retry) ? new UnrecoverableError(text) : new Error(text);
  // Where it was made is of no use to whoever reads the job.
  error.stack = '';
  parts.holdWrites();
  await job.moveToFailed(error, moved.token, false);
}
