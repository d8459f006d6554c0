import { type Clock, type Log, pause, settledWithin, type Timer } from '@nereid/runtime';
import type { Worker } from 'bullmq';
import type { JobTaker, TakeOptions } from './jobs.ts';
import { createApiMover, isJobRefusal, type JobMover, type JobMoverParts, type MovedJob } from './jobs-mover.ts';
import { createProgressLine, type ProgressLine } from './jobs-progress.ts';
import { RETRY_MS, untilDone } from './jobs-until.ts';

export interface JobTakerParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Makes a worker without a processor: its jobs are fetched by hand. */
  readonly worker: () => Worker;
  /** Resolves once Redis is there: a worker made without it never starts. */
  readonly ready: () => Promise<void>;
  /** Called before commands of which there may be more in this turn: they go together. */
  readonly holdWrites: () => void;
  /** Its name, for logs. */
  readonly queue: string;
  readonly lockMs: number;
  /** As the mover has it. */
  readonly alone: boolean;
  readonly options: TakeOptions;
  /** How its jobs are moved; by BullMQ's public API by default. */
  readonly mover?: ((parts: JobMoverParts) => JobMover) | undefined;
  /** Looks for jobs of dead owners from now on; returns how to stop. */
  readonly checkStalled: (worker: Worker) => () => void;
  /** So many bytes of progress, results and reasons were put into the queue's events. */
  readonly eventsGrew: (bytes: number) => void;
}

const RENEWALS_PER_LOCK = 3;
/** Once closing, a step that fails is tried so often; then the lock's end frees the job. */
const CLOSING_TRIES_MAX = 2;
/** BullMQ's scripts complete no parent before its children, and none of which a child has failed it. */
const CHILDREN_LEFT = -4;
const CHILD_FAILED = -9;
/** How long a worker may take to close: its connection may never come. */
const CLOSE_MS_MAX = 1_000;

interface HeldJob {
  readonly job: MovedJob;
  /** Made at its first progress. */
  progress: ProgressLine | undefined;
  /** Set once it is being ended. */
  ending: Promise<void> | undefined;
}

type LastStep = (by: JobMover, job: MovedJob) => Promise<unknown>;

export function createJobTaker(parts: JobTakerParts): JobTaker {
  const { clock, lockMs, options } = parts;
  const { log, queue } = parts;
  const held = new Map<string, HeldJob>();
  let worker: Worker | undefined;
  let mover: JobMover | undefined;
  let closing: Promise<void> | undefined;
  let renewal: Timer | undefined;
  let wake: (() => void) | undefined;
  let stopCheck = () => {};
  let tellClosed = () => {};
  const closed = new Promise<void>((resolve) => {
    tellClosed = resolve;
  });

  const isClosed = () => closing !== undefined;

  const moverOf = (by: Worker) => {
    const { token } = options;
    // What ends takes others along, which nobody would end once this is closed.
    const room = () => (isClosed() ? 0 : options.room());
    const { holdWrites, alone, mover: make = createApiMover } = parts;
    return make({ worker: by, clock, log, queue, holdWrites, alone, token, room, arrived: keep, pause: rest });
  };

  /** Waits so long, or for ever, or until something changed. */
  const rest = (ms?: number) =>
    new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : clock.at(clock.nowUs() + ms * 1000, () => more());
      wake = () => {
        timer?.cancel();
        wake = undefined;
        resolve();
      };
      if (isClosed()) wake();
    });

  const more = () => wake?.();

  const keep = (job: MovedJob) => {
    const { id, data, createdMs, starts, deferredFailure } = job;
    held.set(id, { job, progress: undefined, ending: undefined });
    scheduleRenewal();
    if (isClosed()) return;
    if (!options.taken({ id, data, createdMs, starts, deferredFailure })) void putBack(id, 0);
  };

  /** What moves jobs, by a worker that is up; undefined where the taker is closed first. */
  const start = async (): Promise<JobMover | undefined> => {
    while (!isClosed()) {
      let starting: Worker | undefined;
      try {
        await Promise.race([parts.ready(), closed]);
        if (isClosed()) break;
        starting = parts.worker();
        starting.on('error', (error) => log.debug({ queue, err: error }, 'job queue'));
        await Promise.race([starting.waitUntilReady(), closed]);
        if (isClosed()) {
          // Not known to `shutDown`, and its connection and timers would outlive the taker. Closed within its
          // handshake, its connection would write an error to the terminal that nobody can catch.
          await settledWithin(starting.waitUntilReady(), CLOSE_MS_MAX, clock);
          await settledWithin(starting.close(true), CLOSE_MS_MAX, clock);
          break;
        }
        const made = moverOf(starting);
        await Promise.race([made.begin(), closed]);
        if (isClosed()) {
          await settledWithin(starting.close(true), CLOSE_MS_MAX, clock);
          break;
        }
        mover = made;
        worker = starting;
        stopCheck = parts.checkStalled(starting);
        return made;
      } catch (error) {
        log.debug({ queue, err: error }, 'not taking jobs yet, trying again');
        if (starting !== undefined) await settledWithin(starting.close(true), CLOSE_MS_MAX, clock);
        await rest(RETRY_MS);
      }
    }
    return undefined;
  };

  const takeAll = async (by: JobMover) => {
    /** The last wait, which ends with a look of its own, brought nothing. */
    let isQuiet = false;
    while (!isClosed()) {
      const room = options.room();
      if (room <= 0) {
        await rest();
        continue;
      }
      try {
        const { asked, found } = isQuiet ? { asked: 1, found: 0 } : await by.take(room);
        // The last that was asked for was not there.
        if (found < asked && !isClosed()) isQuiet = !(await by.wait());
      } catch (error) {
        log.debug({ queue, err: error }, 'jobs not taken, trying again');
        await rest(RETRY_MS);
      }
    }
  };

  const renewLocks = async () => {
    const renewed = [...held.entries()];
    if (worker === undefined || renewed.length === 0) return;
    const ids = renewed.map(([id]) => id);
    try {
      const failed = await worker.extendJobLocks(
        ids,
        renewed.map(([, { job }]) => job.token),
        lockMs,
      );
      for (const id of failed) {
        const job = held.get(id);
        // One that is being ended will hear so itself.
        if (job === undefined || job.ending !== undefined) continue;
        held.delete(id);
        job.progress?.drop();
        log.warn({ queue, job: id }, 'lost the lock of a job');
        options.lost(id);
      }
    } catch (error) {
      log.debug({ queue, err: error }, 'locks not renewed, trying again');
    }
  };

  /** Only while there are locks: an idle taker has no timer. */
  const scheduleRenewal = () => {
    renewal ??= clock.at(clock.nowUs() + (lockMs * 1000) / RENEWALS_PER_LOCK, () => {
      renewal = undefined;
      if (held.size === 0) return;
      void renewLocks();
      scheduleRenewal();
    });
  };

  /** Repeats a last step until Redis says yes, or that the job is not ours (any more). */
  const end = (id: string, step: LastStep): Promise<void> => {
    const entry = held.get(id);
    if (entry === undefined || mover === undefined) return Promise.resolve();
    const by = mover;
    entry.ending ??= untilEnded(by, entry, step, id).finally(() => {
      // What went back may be here again.
      if (held.get(id) === entry) held.delete(id);
      more();
    });
    return entry.ending;
  };

  const untilEnded = async (by: JobMover, { job, progress }: HeldJob, step: LastStep, id: string) => {
    if (progress !== undefined) await progress.settled();
    await untilAnswered(() => step(by, job), id);
  };

  const progress = (id: string, value: unknown, bytes: number): boolean => {
    const entry = held.get(id);
    if (entry === undefined || entry.ending !== undefined) return true;
    entry.progress ??= createProgressLine({
      async write(each) {
        await mover?.progress(entry.job, each);
      },
      wrote: parts.eventsGrew,
      async again(error) {
        log.debug({ queue, err: error, job: id }, 'progress of a job not written');
        if (isJobRefusal(error) || isClosed()) return false;
        await pause(clock, RETRY_MS);
        return true;
      },
    });
    return entry.progress.tell(value, bytes);
  };

  const untilAnswered = async (step: () => Promise<unknown>, id: string) => {
    let tries = 0;
    await untilDone(clock, step, (error) => {
      tries++;
      if (isJobRefusal(error)) {
        log.warn({ queue, err: error, job: id }, 'job is no longer ours');
        return false;
      }
      if (isClosed() && tries > CLOSING_TRIES_MAX) {
        log.warn({ queue, err: error, job: id }, 'job left to its lock');
        return false;
      }
      log.debug({ queue, err: error, job: id }, 'job not ended, trying again');
      return true;
    });
  };

  const fail = (id: string, reason: string, retry: boolean, note?: string) =>
    end(id, async (by, job) => {
      await by.fail(job, reason, retry, note);
      parts.eventsGrew(reason.length);
    });

  const complete = (id: string, result: unknown, note?: string) =>
    end(id, async (by, job) => {
      try {
        parts.eventsGrew(await by.complete(job, result, note));
      } catch (error) {
        const reason = uncompletable(error);
        if (reason === undefined) throw error;
        await by.fail(job, reason, false);
      }
    });

  const putBack = (id: string, delayMs: number) => end(id, (by, job) => by.putBack(job, delayMs));

  const shutDown = async () => {
    tellClosed();
    stopCheck();
    more();
    // Ends its blocking wait; the connection that ends jobs is not the worker's own, so it goes on. Without Redis
    // BullMQ waits for it to come back.
    if (worker !== undefined) await settledWithin(worker.close(true), CLOSE_MS_MAX, clock);
    await settledWithin(taking, CLOSE_MS_MAX, clock);
    // What ends may bring another.
    while (held.size > 0) await Promise.all([...held.keys()].map((id) => putBack(id, 0)));
    renewal?.cancel();
  };

  const taking = (async () => {
    const started = await start();
    if (started !== undefined) await takeAll(started);
  })();

  return {
    get held() {
      return held.size;
    },
    more,
    progress,
    complete,
    fail,
    putBack,
    close() {
      closing ??= shutDown();
      return closing;
    },
  };
}

/** Why a job that has a result cannot be completed, now and ever: it would be run again and again. */
function uncompletable(error: unknown): string | undefined {
  // Not Redis' answer: its JSON is beyond the longest string.
  if (error instanceof RangeError) return `INTERNAL: the job's result is too long for its queue`;
  switch ((error as { readonly code?: unknown }).code) {
    case CHILDREN_LEFT:
      return 'INVALID_ARG: the job has run, but jobs below it have not ended: give them ignoreDependencyOnFailure or failParentOnFailure in place of continueParentOnFailure';
    case CHILD_FAILED:
      return 'INVALID_ARG: the job has run, but a job below it with failParentOnFailure has failed';
    default:
      return undefined;
  }
}
