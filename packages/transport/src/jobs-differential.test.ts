/**
 * What our scripts leave of jobs of all kinds is what a stock BullMQ Worker leaves: every key of the queue, and each
 * job's events in their order. `NEREID_DIFFERENTIAL_JOBS=100000 npx vitest run packages/transport/src/jobs-differential`
 * compares more. Run it before a new hash is added to jobs-lua.ts.
 */
import { createLog, seededRandom, systemClock } from '@nereid/runtime';
import { FlowProducer, type JobsOptions, Queue, UnrecoverableError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const JOBS = Number(process.env.NEREID_DIFFERENTIAL_JOBS ?? 10_000);
const BULK = 500;
const AT_ONCE = 32;
const CREATED_MS = 1_700_000_000_000;
const log = createLog({ level: 'silent' });

let server: RedisServerFixture;
let redis: Redis;

beforeAll(async () => {
  server = await startRedisServer();
  redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

/** What becomes of a job, by its data. */
interface Data {
  readonly act: 'ok' | 'fail' | 'final';
  /** Attempts that fail before one that does not. */
  readonly fails?: number;
  readonly result?: unknown;
  readonly pad?: string;
}

interface Outcome {
  readonly result?: unknown;
  readonly reason?: string;
  readonly retry?: boolean;
}

/** `starts`: how often the job was taken, this time too. */
function outcomeOf({ act, fails = 0, result }: Data, starts: number): Outcome {
  if (act === 'final') return { reason: 'INVALID_ARG: wrong', retry: false };
  if (act === 'fail' || starts <= fails) return { reason: 'CANCELLED: not now', retry: true };
  return { result };
}

interface NewJob {
  readonly name: string;
  readonly data: Data;
  readonly opts: JobsOptions;
}

function newJobs(seed: number, count: number): NewJob[] {
  const random = seededRandom(seed);
  const pick = <T>(...some: readonly T[]): T => some[Math.floor(random.next() * some.length)] as T;
  return Array.from({ length: count }, (_, index) => {
    const attempts = pick(undefined, 1, 2, 3);
    const act = pick<Data['act']>('ok', 'ok', 'ok', 'ok', 'fail', 'final');
    const fails = pick(0, 0, 0, 1, 2);
    const opts: JobsOptions = {
      timestamp: CREATED_MS + index,
      ...(attempts === undefined ? {} : { attempts }),
      ...pick<JobsOptions>({}, { backoff: 2 }, { backoff: { type: 'exponential', delay: 1 } }),
      ...pick<JobsOptions>({}, {}, { priority: 1 + Math.floor(random.next() * 9) }, { delay: 5 }, { lifo: true }),
      ...pick<JobsOptions>({}, { jobId: `own-${index}` }),
      ...pick<JobsOptions>({}, {}, { removeOnComplete: true }, { removeOnComplete: { age: 1e6 } }),
      ...pick<JobsOptions>({}, {}, { removeOnFail: true }, { removeOnFail: false }),
      ...pick<JobsOptions>({}, {}, {}, { deduplication: { id: `d${index % 50}` } }),
    };
    const result = pick<unknown>(null, undefined, 0, 'text ü', { y: [1, 2.5], z: null }, true);
    return { name: pick('a', 'b'), data: { act, fails, result, pad: 'x'.repeat(pick(0, 10, 300)) }, opts };
  });
}

async function addFlows(queueName: string, count: number) {
  const flows = new FlowProducer({ connection: redis });
  const trees = Array.from({ length: count }, (_, index) => {
    const child = (id: string, act: Data['act'], opts: JobsOptions) => {
      return { name: 'c', queueName, data: { act, result: id }, opts: { jobId: `${id}-${index}`, ...opts } };
    };
    const policies = [
      { failParentOnFailure: true },
      { ignoreDependencyOnFailure: true },
      { removeDependencyOnFailure: true },
      { continueParentOnFailure: true },
    ];
    return {
      name: 'p',
      queueName,
      data: { act: 'ok', result: 'parent' },
      opts: { jobId: `parent-${index}`, timestamp: CREATED_MS },
      children: [
        child('kid', 'ok', { timestamp: CREATED_MS, removeOnComplete: index % 3 === 0 }),
        child('bad', index % 5 === 0 ? 'ok' : 'fail', { timestamp: CREATED_MS, ...policies[index % policies.length] }),
      ],
    };
  });
  await flows.addBulk(trees);
  await flows.close();
}

async function produce(name: string, jobs: readonly NewJob[], flows: number): Promise<Queue> {
  const queue = new Queue(name, { connection: redis, streams: { events: { maxLen: 100 * JOBS } } });
  await queue.waitUntilReady();
  for (let from = 0; from < jobs.length; from += BULK) await queue.addBulk(jobs.slice(from, from + BULK));
  await addFlows(name, flows);
  return queue;
}

async function drained(queue: Queue) {
  await expect
    .poll(
      async () => {
        const counts = await queue.getJobCounts('wait', 'active', 'delayed', 'prioritized', 'waiting-children');
        return Object.values(counts).reduce((sum, count) => sum + count, 0);
      },
      { timeout: 20_000 + JOBS * 5, interval: 20 },
    )
    .toBe(0);
}

async function byStockWorker(queue: Queue, atOnce: number) {
  const worker = new Worker(
    queue.name,
    async (job) => {
      const { result, reason, retry } = outcomeOf(job.data, job.attemptsStarted);
      if (reason === undefined) return result;
      const error = retry ? new Error(reason) : new UnrecoverableError(reason);
      error.stack = '';
      throw error;
    },
    { connection: redis, concurrency: atOnce, name: 'someone' },
  );
  await drained(queue);
  await worker.close();
}

async function byOurs(queue: Queue, atOnce: number): Promise<number> {
  const connector = connectRedis(server.url, { name: 'coordinator:1' });
  const queues = createJobQueues({ connector, timing: timing(4), clock: systemClock(), log });
  let held = 0;
  const taker = queues.take(queue.name.replace('infer.', ''), {
    by: 'someone',
    token: () => 'co-1:1',
    room: () => atOnce - held,
    taken(job) {
      held++;
      const {
        result,
        reason,
        retry = false,
      } = job.deferredFailure === undefined
        ? outcomeOf(job.data as Data, job.starts)
        : { result: null, reason: job.deferredFailure };
      const ending = reason === undefined ? taker.complete(job.id, result) : taker.fail(job.id, reason, retry);
      void ending.finally(() => {
        held--;
        taker.more();
      });
      return true;
    },
    lost: (id) => expect.fail(`lost ${id}`),
  });
  const before = await scriptCalls();
  await drained(queue);
  const calls = (await scriptCalls()) - before;
  await taker.close();
  await queues.close();
  connector.close();
  return calls;
}

/** EVALSHAs, of whomever. */
async function scriptCalls(): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
}

/** Clocks, and who ran it; BullMQ's parts of a queue that nobody reads as its state. */
const TIMES: ReadonlySet<string> = new Set(['processedOn', 'finishedOn', 'stacktrace']);
const PASSING = /:(marker|stalled|stalled-check|events|pc)$/;

/** Every key of the queue with what it holds, without times and the queue's name. */
async function stateOf({ name }: Queue): Promise<Map<string, unknown>> {
  const prefix = `bull:${name}:`;
  const neutral = (text: string) => text.replaceAll(name, 'Q');
  const state = new Map<string, unknown>();
  const keys = (await redis.keys(`${prefix}*`)).filter((key) => !PASSING.test(key)).sort();
  const contents = await Promise.all(keys.map((key) => contentOf(key, neutral)));
  for (const [index, key] of keys.entries()) state.set(neutral(key), contents[index]);
  return state;
}

async function contentOf(key: string, neutral: (text: string) => string): Promise<unknown> {
  const type = await redis.type(key);
  switch (type) {
    case 'hash': {
      const fields = Object.entries(await redis.hgetall(key)).filter(([field]) => !TIMES.has(field));
      return fields.map(([field, value]) => `${neutral(field)}=${neutral(value)}`).sort();
    }
    case 'zset':
      return (await redis.zrange(key, '0', '-1')).map(neutral).sort();
    case 'list':
      return (await redis.lrange(key, 0, -1)).map(neutral);
    case 'set':
      return (await redis.smembers(key)).map(neutral).sort();
    default:
      return neutral(String(await redis.get(key)));
  }
}

/** Each job's events in their order. */
async function eventsOf({ name }: Queue): Promise<{ readonly jobs: Map<string, string[]>; readonly drains: number }> {
  const jobs = new Map<string, string[]>();
  let drains = 0;
  for (const [, fields] of await redis.xrange(`bull:${name}:events`, '-', '+')) {
    const event = new Map<string, string>();
    for (let at = 0; at < fields.length; at += 2) event.set(String(fields[at]), String(fields[at + 1]));
    const id = event.get('jobId');
    if (event.get('event') === 'drained') drains++;
    event.delete('delay');
    if (id === undefined) continue;
    const text = [...event].map(([field, value]) => `${field}=${value.replaceAll(name, 'Q')}`).join(' ');
    const known = jobs.get(id);
    if (known === undefined) jobs.set(id, [text]);
    else known.push(text);
  }
  return { jobs, drains };
}

/** As `toEqual`, which takes its time where all is well. */
function expectSame(own: unknown, stock: unknown, what: string) {
  if (JSON.stringify(own) !== JSON.stringify(stock)) expect(own, what).toEqual(stock);
}

async function compare(stock: Queue, ours: Queue) {
  const [state, ownState] = [await stateOf(stock), await stateOf(ours)];
  expect([...ownState.keys()]).toEqual([...state.keys()]);
  for (const [key, content] of state) expectSame(ownState.get(key), content, key);
  const [events, ownEvents] = [await eventsOf(stock), await eventsOf(ours)];
  expect(ownEvents.jobs.size).toBe(events.jobs.size);
  for (const [id, each] of events.jobs) expectSame(ownEvents.jobs.get(id), each, id);
  expect([events.drains > 0, ownEvents.drains > 0]).toEqual([true, true]);
}

test(
  `${JOBS} jobs of all kinds leave what a stock Worker leaves`,
  async () => {
    const flows = Math.ceil(JOBS / 60);
    const jobs = newJobs(1, JOBS - 3 * flows);
    const stock = await produce('infer.stock', jobs, flows);
    const ours = await produce('infer.ours', jobs, flows);
    await byStockWorker(stock, AT_ONCE);
    await byOurs(ours, AT_ONCE);
    await compare(stock, ours);
    await Promise.all([stock.close(), ours.close()]);
  },
  120_000 + JOBS * 20,
);

test('what is trimmed by count and age, one job after the other, is the same', async () => {
  const keeps: JobsOptions[] = [
    { removeOnComplete: 7, removeOnFail: 3 },
    { removeOnComplete: { count: 9 } },
    { removeOnComplete: { age: 60, limit: 3 } },
    { removeOnComplete: { age: 60, count: 20 } },
  ];
  const jobs = Array.from({ length: 120 }, (_, index): NewJob => {
    const act = index % 7 === 6 ? 'final' : 'ok';
    // Of those that end in one millisecond the first by name goes first.
    const opts = { jobId: `j${1000 + index}`, timestamp: CREATED_MS, ...keeps[Math.floor(index / 5) % keeps.length] };
    return { name: 'a', data: { act, result: index }, opts };
  });
  const queues: Queue[] = [];
  for (const [name, run] of [
    ['infer.stocktrim', byStockWorker],
    ['infer.ourtrim', byOurs],
  ] as const) {
    const queue = await produce(name, jobs, 0);
    // Long over.
    for (let index = 0; index < 40; index++) {
      await redis.hset(`bull:${name}:old${index}`, 'name', 'a', 'data', '{}', 'timestamp', CREATED_MS);
      await redis.zadd(`bull:${name}:completed`, CREATED_MS + index, `old${index}`);
    }
    await run(queue, 1);
    queues.push(queue);
  }
  const [stock, ours] = queues as [Queue, Queue];
  await compare(stock, ours);
  await Promise.all([stock.close(), ours.close()]);
});

test('eight jobs at a time take less than 0.4 calls of scripts each', async () => {
  const jobs = Array.from({ length: 800 }, (): NewJob => ({ name: 'a', data: { act: 'ok' }, opts: {} }));
  const queue = await produce('infer.calls', jobs, 0);
  expect(await byOurs(queue, 8)).toBeLessThan(0.4 * 800);
  await queue.close();
});
