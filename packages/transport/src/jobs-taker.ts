import { type Clock, type Log, settledWithin, type Timer } from '@nereid/runtime';
import { Job, UnrecoverableError, type Worker } from 'bullmq';
import type { JobTaker, TakenJob, TakeOptions } from './jobs.ts';
import { createProgressLine, type ProgressLine } from './jobs-progress.ts';
import { unservedBackoff } from './jobs-retry.ts';

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
  readonly options: TakeOptions;
  /** Looks for jobs of dead owners from now on; returns how to stop. */
  readonly checkStalled: (worker: Worker) => () => void;
  /** So many bytes of progress were put into the queue's events. */
  readonly eventsGrew: (bytes: number) => void;
}

/** So many jobs are asked for at a time, while as many as were asked for are there. */
const TAKES_AT_ONCE_MAX = 16;
const RENEWALS_PER_LOCK = 3;
/** Between two tries while Redis does not answer. */
const RETRY_MS = 200;
/** Rows of a job's log; its producer may write some too. */
const NOTES_MAX = 64;
/** Waits for jobs that end at once (a rate limit, a marker of a delayed job) are not repeated sooner. */
const EMPTY_PAUSE_MS = 20;
/** Milliseconds below which a wait counts as none. */
const EMPTY_WAIT_MS = 5;
/** Once closing, a step that fails is tried so often; then the lock's end frees the job. */
const CLOSING_TRIES_MAX = 2;
/** How long a worker that has not started may take to close: its connection may never come. */
const CLOSE_MS_MAX = 1_000;

interface HeldJob {
  readonly job: Job;
  readonly token: string;
  /** Made at its first progress. */
  progress: ProgressLine | undefined;
  /** Set once it is being ended. */
  ending: Promise<void> | undefined;
}

type LastStep = (job: Job, token: string) => Promise<unknown>;

export function createJobTaker(parts: JobTakerParts): JobTaker {
  const { clock, lockMs, options } = parts;
  const { log, queue } = parts;
  const held = new Map<string, HeldJob>();
  let worker: Worker | undefined;
  let closing: Promise<void> | undefined;
  let renewal: Timer | undefined;
  let wake: (() => void) | undefined;
  let stopCheck = () => {};
  /** Waits since the last job that ended at once with none. */
  let emptyWaits = 0;
  let tellClosed = () => {};
  const closed = new Promise<void>((resolve) => {
    tellClosed = resolve;
  });

  const isClosed = () => closing !== undefined;

  /** Waits so long, or for ever, or until something changed. */
  const pause = (ms?: number) =>
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

  const keep = (job: Job, token: string) => {
    const { id } = job;
    if (id === undefined) return;
    held.set(id, { job, token, progress: undefined, ending: undefined });
    scheduleRenewal();
    if (isClosed()) return;
    if (job.deferredFailure !== undefined) void fail(id, job.deferredFailure, false);
    else if (!options.taken(takenJob(id, job))) void putBack(id, 0);
  };

  /** The jobs that are there now, up to a number; how many there were. */
  const takeNow = async (from: Worker, count: number): Promise<number> => {
    const token = options.token();
    parts.holdWrites();
    const jobs = await Promise.all(
      Array.from({ length: count }, () => from.getNextJob(token, { block: false }) as Promise<Job | undefined>),
    );
    const found = jobs.filter((job) => job !== undefined);
    if (found.length > 0) emptyWaits = 0;
    for (const job of found) keep(job, token);
    return found.length;
  };

  /** False where none came. */
  const waitForOne = async (from: Worker): Promise<boolean> => {
    const token = options.token();
    const askedUs = clock.nowUs();
    const job = (await from.getNextJob(token)) as Job | undefined;
    if (job !== undefined) keep(job, token);
    // Each job that is taken leaves a marker that there may be more, and the next wait ends with that.
    const isEmpty = job === undefined && clock.nowUs() - askedUs < EMPTY_WAIT_MS * 1000;
    emptyWaits = isEmpty ? emptyWaits + 1 : 0;
    if (emptyWaits > 1) await pause(EMPTY_PAUSE_MS);
    return job !== undefined;
  };

  /** A worker that is up; undefined where the taker is closed first. */
  const start = async (): Promise<Worker | undefined> => {
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
        worker = starting;
        stopCheck = parts.checkStalled(starting);
        return starting;
      } catch (error) {
        log.debug({ queue, err: error }, 'not taking jobs yet, trying again');
        if (starting !== undefined) await settledWithin(starting.close(true), CLOSE_MS_MAX, clock);
        await pause(RETRY_MS);
      }
    }
    return undefined;
  };

  const takeAll = async (from: Worker) => {
    let likely = 1;
    /** The last wait, which ends with a look of its own, brought nothing. */
    let isQuiet = false;
    while (!isClosed()) {
      const room = options.room();
      if (room <= 0) {
        await pause();
        continue;
      }
      try {
        const asked = Math.min(room, likely);
        const found = isQuiet ? 0 : await takeNow(from, asked);
        likely = found === asked ? Math.min(likely * 2, TAKES_AT_ONCE_MAX) : Math.max(1, found);
        // The last that was asked for was not there.
        if (found < asked && !isClosed()) isQuiet = !(await waitForOne(from));
      } catch (error) {
        log.debug({ queue, err: error }, 'jobs not taken, trying again');
        await pause(RETRY_MS);
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
        renewed.map(([, { token }]) => token),
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
  const end = (id: string, step: LastStep, note?: string): Promise<void> => {
    const entry = held.get(id);
    if (entry === undefined) return Promise.resolve();
    if (note !== undefined && entry.ending === undefined) putDown(id, note);
    entry.ending ??= untilEnded(entry, step, id).finally(() => {
      held.delete(id);
      more();
    });
    return entry.ending;
  };

  const untilEnded = async ({ job, token, progress }: HeldJob, step: LastStep, id: string) => {
    if (progress !== undefined) await progress.settled();
    await untilAnswered(() => step(job, token), id);
  };

  const progress = (id: string, value: unknown, bytes: number): boolean => {
    const entry = held.get(id);
    if (entry === undefined || entry.ending !== undefined) return true;
    entry.progress ??= createProgressLine({
      write(each) {
        parts.holdWrites();
        return entry.job.updateProgress(each as object);
      },
      wrote: parts.eventsGrew,
      async again(error) {
        log.debug({ queue, err: error, job: id }, 'progress of a job not written');
        if (isRefusal(error) || isClosed()) return false;
        await new Promise<void>((resolve) => clock.at(clock.nowUs() + RETRY_MS * 1000, resolve));
        return true;
      },
    });
    return entry.progress.tell(value, bytes);
  };

  /** With the command that ends the job, before it: a note that gets lost is not worth a wait. */
  const putDown = (id: string, note: string) => {
    if (worker === undefined) return;
    parts.holdWrites();
    Job.addJobLog(worker, id, note, NOTES_MAX).catch((error) =>
      log.debug({ queue, err: error, job: id }, 'job note lost'),
    );
  };

  const untilAnswered = async (step: () => Promise<unknown>, id: string) => {
    for (let attempt = 1; ; attempt++) {
      try {
        parts.holdWrites();
        await step();
        return;
      } catch (error) {
        if (isRefusal(error)) {
          log.warn({ queue, err: error, job: id }, 'job is no longer ours');
          return;
        }
        if (isClosed() && attempt > CLOSING_TRIES_MAX) {
          log.warn({ queue, err: error, job: id }, 'job left to its lock');
          return;
        }
        log.debug({ queue, err: error, job: id }, 'job not ended, trying again');
        await new Promise<void>((resolve) => clock.at(clock.nowUs() + RETRY_MS * 1000, resolve));
      }
    }
  };

  const fail = (id: string, reason: string, retry: boolean, note?: string) => {
    const step = (job: Job, token: string) => {
      const unknown = unservedBackoff(job);
      const text =
        retry && unknown !== undefined ? `${reason} (not retried: backoff '${unknown}' is not served)` : reason;
      const error = retry && unknown === undefined ? new Error(text) : new UnrecoverableError(text);
      // Where it was made is of no use to whoever reads the job.
      error.stack = '';
      return job.moveToFailed(error, token, false);
    };
    return end(id, step, note);
  };

  const complete = (id: string, result: unknown, note?: string) => {
    const step = async (job: Job, token: string) => {
      try {
        await job.moveToCompleted(result, token, false);
      } catch (error) {
        // Not Redis' answer: its JSON is beyond the longest string, now and ever.
        if (!(error instanceof RangeError)) throw error;
        const tooLong = new UnrecoverableError(`INTERNAL: the job's result is too long for its queue`);
        tooLong.stack = '';
        await job.moveToFailed(tooLong, token, false);
      }
    };
    return end(id, step, note);
  };

  const putBack = (id: string, delayMs: number) =>
    end(id, (job, token) => (delayMs > 0 ? job.moveToDelayed(clock.wallMs() + delayMs, token) : job.moveToWait(token)));

  const shutDown = async () => {
    tellClosed();
    stopCheck();
    more();
    // Ends its blocking wait; the connection that ends jobs is not the worker's own, so it goes on.
    await worker?.close(true);
    await taking;
    await Promise.all([...held.keys()].map((id) => putBack(id, 0)));
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

/** BullMQ's scripts refuse with a number: no such job, not its lock, not running. */
function isRefusal(error: unknown): boolean {
  return typeof (error as { readonly code?: unknown }).code === 'number';
}

function takenJob(id: string, { data, timestamp, attemptsStarted }: Job): TakenJob {
  return { id, data, createdMs: timestamp, starts: attemptsStarted };
}
