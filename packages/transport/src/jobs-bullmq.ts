import { errorInfo, NereidError, REDIS_FULL } from '@nereid/protocol';
import { answeredWithin, type Clock, type Log, pause } from '@nereid/runtime';
import { type Job, type Queue, Worker } from 'bullmq';
import type { JobQueues, NewJob, StoredJob, TakeOptions } from './jobs.ts';
import { createJobChanges } from './jobs-changes.ts';
import { createDeliveries } from './jobs-deliveries.ts';
import { sweepEnded } from './jobs-ended-sweep.ts';
import { readEventPage } from './jobs-event-page.ts';
import { createEventRoom } from './jobs-event-room.ts';
import { openJobEvents } from './jobs-events.ts';
import { createJobFollow } from './jobs-follow.ts';
import { withFollowUps } from './jobs-follow-ups.ts';
import { createJobKeys } from './jobs-keys.ts';
import { createDeadLetters } from './jobs-letters.ts';
import { createJobList } from './jobs-list.ts';
import { createJobListeners } from './jobs-listeners.ts';
import { jobQueueName, jobQueuePrefix, type QueueKind } from './jobs-names.ts';
import { needsInputs, sweepPayloads } from './jobs-payload-sweep.ts';
import { withPayloads } from './jobs-payload-taker.ts';
import { createJobPayloads } from './jobs-payloads.ts';
import { jobPlace } from './jobs-places.ts';
import { createBullQueues } from './jobs-queues.ts';
import { createSafeWrites, type JobsLink } from './jobs-safe-writes.ts';
import { createScriptMover } from './jobs-script-mover.ts';
import { createJobScripts, type JobScripts } from './jobs-scripts.ts';
import { ALONG_PARTS, createStalledCheck, type StalledCheck, type StalledQueue } from './jobs-stalled.ts';
import { hasResult, isOver, jobState, storedJob } from './jobs-stored.ts';
import { createJobTaker } from './jobs-taker.ts';
import { createJobWait } from './jobs-waits.ts';
import { isOutOfMemory, type RedisConnection, type RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { redisMemory } from './redis-memory.ts';
import type { Timing } from './timing.ts';
import { createTurnWrites } from './turn-writes.ts';

export interface JobQueuesOptions {
  readonly connector: RedisConnector;
  /** BullMQ's key prefix; `%m` stands for the model. `bull`, BullMQ's own, by default. */
  readonly prefix?: string;
  /** What is promised waits until it is on Redis' disk, by WAITAOF (`checkJobsDurability` says whether it has to). */
  readonly waitsForDisk?: boolean;
  /** This process alone takes jobs from this Redis, so whatever another has taken is a dead one's. */
  readonly alone?: boolean;
  /** False: by BullMQ's public API alone; by our own scripts where they fit the installed BullMQ by default. */
  readonly scripts?: boolean;
  /** What the keys of payloads begin with, `nereid` by default. */
  readonly redisPrefix?: string;
  readonly timing: Timing;
  readonly clock: Clock;
  readonly log: Log;
}

const PREFIX = 'bull';
const REDIS_PREFIX = 'nereid';
/** BullMQ's names are free in `infer.` queues; ours is this. */
const JOB_NAME = 'infer';
/** The first pause between attempts; each later one is twice as long. */
const BACKOFF_MS = 1_000;
/**
 * BullMQ trims a queue's finished jobs by the age that the job which finishes now is to have, so a short
 * one would take the others' results along: none is shorter than this.
 */
const KEEP_S_MIN = 3_600;
/** Stalls are deaths of coordinators, never a job's own doing: they fail no job. */
const STALLS_MAX = 1_000_000;
/** How long Redis may be away before its caller is told. */
const ANSWER_MS_MAX = 5_000;
const RETRY_MS = 100;
/** Rows of a job's log that are read: of whoever writes some. */
const NOTES_READ_MAX = 64;
/** A blocking wait for jobs, in seconds. */
const BLOCK_S = 5;

/** Jobs in BullMQ. Dials at first use. */
export function createJobQueues(options: JobQueuesOptions): JobQueues {
  const { connector, timing, clock, log, prefix = PREFIX, alone = false } = options;
  const redisKeyNames = redisKeys(options.redisPrefix ?? REDIS_PREFIX);
  let connection: RedisConnection | undefined;
  let payloadConnection: RedisConnection | undefined;
  let sweeping: Promise<unknown> | undefined;
  /** Models whose jobs are, or were, taken here. */
  const taken = new Set<string>();
  const sweepEnd = new AbortController();
  let stalled: StalledCheck | undefined;
  let scripts: JobScripts | undefined;
  let holdWrites = () => {};
  let closing: Promise<void> | undefined;

  const connected = () => {
    if (closing !== undefined) throw new NereidError('UNAVAILABLE', 'the job queues are closed');
    if (connection === undefined) {
      connection = connector.connect('jobs');
      const { client } = connection;
      holdWrites = createTurnWrites(client);
      if (options.scripts !== false) scripts = createJobScripts({ client, log, alone });
      connection.watch((event) => {
        if (event === 'lost') listeners.reopen();
      });
    }
    return connection;
  };

  const queueOf = (model: string, kind?: QueueKind) => {
    return { name: jobQueueName(model, kind), prefix: jobQueuePrefix(prefix, model) };
  };

  const queues = createBullQueues(() => connected().client, log);
  const opened = (model: string, kind?: QueueKind): Queue => queues.opened(queueOf(model, kind));

  /** Asks Redis, and again if that failed; so what is asked must be harmless to repeat. */
  const ask = async <T>(question: () => Promise<T>): Promise<T> => {
    const untilUs = clock.nowUs() + ANSWER_MS_MAX * 1000;
    const leftMs = () => (untilUs - clock.nowUs()) / 1000;
    for (;;) {
      let failure: unknown;
      try {
        if (!connected().isReady) await answeredWithin(connected().ready(), leftMs(), clock);
        holdWrites();
        return await answeredWithin(question(), leftMs(), clock);
      } catch (error) {
        failure = error;
      }
      if (isOutOfMemory(failure)) throw redisFull(connector.url, failure);
      // It is no other one the next time.
      if (failure instanceof SyntaxError)
        throw new NereidError('INTERNAL', `the job in Redis is none of BullMQ's: ${failure.message}`, {
          cause: failure,
        });
      if (closing !== undefined || leftMs() <= 0) throw noAnswer(failure);
      await pause(clock, RETRY_MS);
    }
  };

  const noAnswer = (cause: unknown) =>
    new NereidError('UNAVAILABLE', `Redis at ${connector.url} does not take jobs now: ${errorInfo(cause).message}`, {
      cause,
    });

  const commands = () => {
    const { client } = connected();
    holdWrites();
    return client;
  };

  const link: JobsLink = { ask, queue: opened, client: commands };
  const synced = options.waitsForDisk
    ? createSafeWrites({ connector, log, queueOf, ask, markKey: redisKeyNames.synced('all') })
    : undefined;
  const safe: JobsLink = synced ?? link;

  const read = async (model: string, id: string) => (await opened(model).getJob(id)) as Job | undefined;

  const find = (model: string, id: string, known?: Job): Promise<StoredJob | undefined> =>
    ask(async () => {
      let job = known ?? (await read(model, id));
      if (job === undefined || hasResult(job)) return job && storedJob(model, id, 'completed', job);
      const state = jobState(await opened(model).getJobState(id));
      // The state may be younger: what it says has happened is in the job by then.
      if (isOver(state) && job.finishedOn === undefined) job = await read(model, id);
      return job && storedJob(model, id, state, job);
    });

  const listeners = createJobListeners({
    log,
    listen: (model, idle) => openJobEvents({ clock, log, client: connected().client, queue: queueOf(model), idle }),
  });
  const wait = createJobWait({ clock, listeners, ask, read, find });
  const follow = createJobFollow({
    clock,
    listeners,
    ask,
    find: (model, id) => find(model, id),
    page: (model, id, start) => readEventPage(connected().client, opened(model).toKey('events'), id, start),
  });

  const letters = createDeadLetters({ clock, link, safe });
  const deliveries = createDeliveries({
    clock,
    log,
    link,
    safe,
    names: queueOf,
    together: !connector.cluster,
  });
  const payloads = createJobPayloads({
    connection: () => {
      payloadConnection ??= connector.connect('job-payloads');
      return payloadConnection;
    },
    keys: redisKeyNames,
    ask,
    safe,
  });

  const isNeeded = (publicId: string): Promise<boolean> =>
    ask(() => needsInputs(commands(), (model, kind, name) => opened(model, kind).toKey(name), publicId));

  const sweep = () => {
    const { signal } = sweepEnd;
    return Promise.all([
      sweepPayloads({ clock, log, client: commands, keys: redisKeyNames, isNeeded, signal }),
      sweepEnded({
        clock,
        log,
        client: commands,
        queues: () => [...taken].flatMap((model) => [opened(model), opened(model, 'hooks')]),
        signal,
      }),
    ]);
  };

  const shutDown = async () => {
    await listeners.close();
    sweepEnd.abort();
    await sweeping;
    await synced?.close();
    payloadConnection?.close();
    await queues.close();
    connection?.close();
  };

  return {
    url: connector.url,
    letters,
    deliveries,
    payloads,
    queue: (model) => queueOf(model),
    openBullQueue: (model, kind) => queues.make(queueOf(model, kind)),
    find: (model, id) => find(model, id),
    wait: (model, id, waitMs, signal) => wait(model, id, waitMs, false, signal),
    waitOutcome: (model, id, waitMs, signal) => wait(model, id, waitMs, true, signal),
    follow,
    async add(model, job) {
      const { blobs } = job;
      const hasBlobs = blobs !== undefined && blobs.size > 0;
      if (hasBlobs) await payloads.write(blobs);
      await safe.ask(async () => {
        if (hasBlobs && synced !== undefined) await payloads.ensure(synced.client(), blobs);
        await safe.queue(model).add(JOB_NAME, job.data, jobOptions(job));
      });
    },
    memory: () => ask(() => redisMemory(commands())),
    list: createJobList({ ask, client: commands, opened }),
    place: (model, id) => ask(() => jobPlace(commands(), opened(model), id)),
    changes: createJobChanges({ safe, find: (model, id) => find(model, id), payloads }),
    keys: createJobKeys({ ask, client: commands, prefix: (model) => queueOf(model).prefix }),
    notes: (model, id) => ask(async () => (await opened(model).getJobLogs(id, 0, NOTES_READ_MAX - 1, false)).logs),
    counts: (model) =>
      ask(async () => {
        const counts = await opened(model).getJobCounts();
        const sum = (...names: readonly string[]) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);
        return {
          waiting: sum('waiting', 'wait', 'paused', 'prioritized', 'waiting-children'),
          delayed: sum('delayed'),
          running: sum('active'),
          completed: sum('completed'),
          failed: sum('failed'),
        };
      }),
    take(model, takeOptions) {
      const { name, prefix: own } = queueOf(model);
      const { client, ready } = connected();
      const worker = () =>
        new Worker(name, null, {
          connection: client,
          prefix: own,
          name: takeOptions.by,
          autorun: false,
          lockDuration: timing.job_lock_ms,
          // For so long another process's look counts; ours are never closer.
          stalledInterval: timing.job_stalled_ms / ALONG_PARTS,
          maxStalledCount: STALLS_MAX,
          drainDelay: BLOCK_S,
        });
      stalled ??= createStalledCheck({
        clock,
        log,
        client,
        together: !connector.cluster,
        everyMs: timing.job_stalled_ms,
      });
      const { add: checkStalled } = stalled;
      const script = scripts;
      const lockMs = timing.job_lock_ms;
      const eventsGrew = createEventRoom(client, opened(model).toKey('events'));
      const make = (options: TakeOptions) =>
        createJobTaker({
          checkStalled: (from) => checkStalled(script === undefined ? from : stalledInOrder(from, script)),
          mover: script && ((parts) => createScriptMover({ ...parts, scripts: script, lockMs, by: options.by })),
          eventsGrew,
          clock,
          log,
          queue: name,
          worker,
          ready,
          holdWrites,
          lockMs,
          alone,
          options,
        });
      const readJob = (id: string) => ask(() => read(model, id));
      taken.add(model);
      sweeping ??= sweep();
      const withEnds = (options: TakeOptions) =>
        withFollowUps(make, options, { clock, log, model, letters, deliveries, read: readJob });
      const isOverNow = async (id: string) => {
        const key = opened(model).toKey(id);
        const [timestamp, finishedOn] = await ask(() => commands().hmget(key, 'timestamp', 'finishedOn'));
        return timestamp === null || finishedOn !== null;
      };
      return withPayloads(withEnds, takeOptions, { clock, log, model, payloads, isOver: isOverNow });
    },
    close() {
      closing ??= shutDown();
      return closing;
    },
    get waiters() {
      return listeners.size;
    },
  };
}

function redisFull(url: string, cause: unknown): NereidError {
  const text = `Redis at ${url} has no memory left (maxmemory): jobs are taken again once some have ended or expired`;
  return new NereidError('UNAVAILABLE', text, { reason: REDIS_FULL, cause });
}

function stalledInOrder(worker: Worker, scripts: JobScripts): StalledQueue {
  return {
    toKey: (type) => worker.toKey(type),
    backend: { moveStalledJobsToWait: async () => [...(await scripts.stalled(worker))] },
  };
}

function jobOptions(job: NewJob) {
  const keep = { age: Math.max(job.resultTtlS, KEEP_S_MIN) };
  return {
    jobId: job.id,
    timestamp: job.createdMs,
    priority: job.priority,
    delay: job.delayMs,
    attempts: job.attempts,
    backoff: { type: 'exponential', delay: BACKOFF_MS },
    removeOnComplete: keep,
    removeOnFail: keep,
  };
}
