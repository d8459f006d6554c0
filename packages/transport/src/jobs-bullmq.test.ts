import { createLog, systemClock } from '@nereid/runtime';
import { Queue, QueueEvents } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test as once } from 'vitest';
import type { JobQueues, JobTaker, NewJob, TakenJob, TakeOptions } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis, type RedisConnector } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

/** Locks of half a second. */
const SCALE = 0.2;
const JOB: NewJob = {
  id: 'A1',
  createdMs: Date.now(),
  data: { x: 1 },
  priority: 0,
  delayMs: 0,
  attempts: 1,
  resultTtlS: 60,
};

const log = createLog({ level: 'silent' });
let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];
let model: string;
let models = 0;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  scripts = true;
  models++;
  model = `m${models}`;
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

/** Our scripts, or BullMQ's public API. */
let scripts = true;

/** With both. */
function test(name: string, body: () => Promise<void>): void {
  for (const way of [true, false]) {
    once(`${name} (${way ? 'our scripts' : "BullMQ's public API"})`, async () => {
      scripts = way;
      await body();
    });
  }
}

function openQueues(
  name = 'gateway:1',
): JobQueues & { readonly clock: ReturnType<typeof systemClock>; readonly connector: RedisConnector } {
  const clock = systemClock();
  const connector = connectRedis(server.url, { name });
  const queues = createJobQueues({ connector, timing: timing(SCALE), clock, log, scripts });
  cleanups.push(async () => {
    await queues.close();
    connector.close();
    expect({ waiters: queues.waiters, timers: clock.liveTimers }).toEqual({ waiters: 0, timers: 0 });
  });
  return Object.assign(queues, { clock, connector });
}

interface Taking {
  readonly taker: JobTaker;
  readonly taken: TakenJob[];
  readonly lost: string[];
  /** Waits until so many jobs have been taken. */
  arrived(count: number): Promise<void>;
}

function take(queues: JobQueues, more: Partial<TakeOptions> = {}): Taking {
  const taken: TakenJob[] = [];
  const lost: string[] = [];
  let waiter = () => {};
  const taker = queues.take(model, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken(job) {
      taken.push(job);
      waiter();
      return true;
    },
    lost: (id) => lost.push(id),
    ...more,
  });
  cleanups.push(() => taker.close());
  const arrived = (count: number) =>
    new Promise<void>((resolve) => {
      waiter = () => {
        if (taken.length >= count) resolve();
      };
      waiter();
    });
  return { taker, taken, lost, arrived };
}

function plainConnection(): Redis {
  const redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  cleanups.push(() => redis.disconnect());
  return redis;
}

describe('a job', () => {
  test('is added, taken, completed and found', async () => {
    const queues = openQueues();
    expect(await queues.find(model, 'A1')).toBeUndefined();
    await queues.add(model, JOB);
    expect(await queues.find(model, 'A1')).toMatchObject({
      state: 'waiting',
      data: { x: 1 },
      attemptsMade: 0,
      attemptsMax: 1,
    });
    expect(await queues.counts(model)).toEqual({ waiting: 1, delayed: 0, running: 0, completed: 0, failed: 0 });
    const { taker, taken, arrived } = take(queues);
    await arrived(1);
    expect(taken[0]).toMatchObject({ id: 'A1', data: { x: 1 } });
    expect((await queues.find(model, 'A1'))?.state).toBe('running');
    await taker.complete('A1', { y: 2 });
    expect(taker.held).toBe(0);
    const job = await queues.find(model, 'A1');
    expect(job).toMatchObject({ state: 'completed', result: { y: 2 }, attemptsMade: 1 });
    expect(job?.finishedMs).toBeGreaterThanOrEqual(job?.startedMs ?? Number.POSITIVE_INFINITY);
  });

  test('added twice under one id is one job', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    await queues.add(model, { ...JOB, data: { x: 2 } });
    expect((await queues.counts(model)).waiting).toBe(1);
    expect((await queues.find(model, 'A1'))?.data).toEqual({ x: 1 });
  });

  test('that fails is tried as often as it has attempts', async () => {
    const queues = openQueues();
    const redis = plainConnection();
    const queue = new Queue(queues.queue(model).name, { connection: redis });
    cleanups.push(() => queue.close());
    await queue.add('x', {}, { jobId: 'A1', attempts: 2 });
    const { taker, arrived } = take(queues);
    await arrived(1);
    await taker.fail('A1', 'INTERNAL: first', true);
    await arrived(2);
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'running', attemptsMade: 1 });
    await taker.fail('A1', 'INTERNAL: second', true);
    expect(await queues.find(model, 'A1')).toMatchObject({
      state: 'failed',
      attemptsMade: 2,
      failedReason: 'INTERNAL: second',
    });
    // Where in our code it failed tells a producer nothing.
    expect((await queue.getJob('A1'))?.stacktrace).toEqual([]);
  });

  test('that fails for good is not tried again', async () => {
    const queues = openQueues();
    await queues.add(model, { ...JOB, attempts: 5 });
    const { taker, arrived } = take(queues);
    await arrived(1);
    await taker.fail('A1', 'INVALID_ARG: wrong', false);
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'failed', attemptsMade: 1 });
  });

  test('whose backoff is not known fails by its name', async () => {
    const queues = openQueues();
    const queue = new Queue(queues.queue(model).name, { connection: plainConnection() });
    cleanups.push(() => queue.close());
    await queue.add('x', {}, { jobId: 'A1', attempts: 2, backoff: { type: 'mine', delay: 5 } });
    const { taker, arrived } = take(queues);
    await arrived(1);
    await taker.fail('A1', 'INTERNAL: x', true);
    expect((await queues.find(model, 'A1'))?.failedReason).toBe(
      "INTERNAL: x (not retried: backoff 'mine' is not served)",
    );
  });

  test('that is put back counts no attempt', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    const { taker, arrived } = take(queues);
    await arrived(1);
    await taker.putBack('A1', 0);
    await arrived(2);
    await taker.putBack('A1', 20);
    await arrived(3);
    await taker.complete('A1', {});
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'completed', attemptsMade: 1 });
  });

  test('that is not wanted goes back', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    let asked = 0;
    const { taker } = take(queues, { taken: () => ++asked > 1 });
    await expect.poll(() => asked).toBe(2);
    await taker.complete('A1', {});
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'completed', attemptsMade: 1 });
  });

  test('waits for its delay and goes by priority', async () => {
    // Longer than a busy machine takes to look at it.
    const delayMs = 2_000;
    const queues = openQueues();
    await queues.add(model, { ...JOB, id: 'late', createdMs: Date.now(), delayMs });
    await queues.add(model, { ...JOB, id: 'low', priority: 5 });
    await queues.add(model, { ...JOB, id: 'high', priority: 1 });
    expect((await queues.find(model, 'late'))?.state).toBe('delayed');
    const { taken, arrived } = take(queues);
    await arrived(3);
    expect(taken.map(({ id }) => id)).toEqual(['high', 'low', 'late']);
  });
});

test('no more jobs are held than there is room for', async () => {
  const queues = openQueues();
  for (let index = 0; index < 9; index++) await queues.add(model, { ...JOB, id: `A${index}` });
  const taking: Taking = take(queues, { room: () => 3 - taking.taker.held });
  for (let over = 0; over < 9; over += 3) {
    await taking.arrived(over + 3);
    expect(taking.taker.held).toBe(3);
    expect(await queues.counts(model)).toMatchObject({ running: 3, waiting: 6 - over, completed: over });
    await Promise.all(taking.taken.slice(over).map(({ id }) => taking.taker.complete(id, {})));
  }
});

test('locks are renewed while a job is held', async () => {
  const queues = openQueues();
  await queues.add(model, JOB);
  const first = take(queues);
  await first.arrived(1);
  const other = openQueues('coordinator:2');
  const second = take(other, { by: 'co-2', token: () => 'co-2:1' });
  // Three locks' time, with another looking for stalled jobs.
  await new Promise((resolve) => setTimeout(resolve, 3 * timing(SCALE).job_lock_ms));
  expect(second.taken).toEqual([]);
  await first.taker.complete('A1', { by: 1 });
  expect(await queues.find(model, 'A1')).toMatchObject({ state: 'completed', result: { by: 1 } });
});

test("a dead owner's job is taken by another, and only one result is kept (R32)", async () => {
  const queues = openQueues();
  await queues.add(model, JOB);
  const dying = openQueues('coordinator:1');
  const first = take(dying);
  await first.arrived(1);
  // No renewal reaches Redis any more, as of a killed process.
  dying.connector.close();
  const second = take(queues, { by: 'co-2', token: () => 'co-2:2' });
  await second.arrived(1);
  await second.taker.complete('A1', { by: 2 });
  expect(await queues.find(model, 'A1')).toMatchObject({ state: 'completed', result: { by: 2 }, attemptsMade: 1 });
});

test('a lock that another holds ends nothing (R32)', async () => {
  const queues = openQueues();
  await queues.add(model, JOB);
  const first = take(queues, { room: () => (first.taken.length > 0 ? 0 : 1) });
  await first.arrived(1);
  const redis = plainConnection();
  await redis.set(`bull:infer.${model}:A1:lock`, 'co-2:2');
  await first.taker.complete('A1', { by: 1 });
  expect(first.taker.held).toBe(0);
  expect(await queues.find(model, 'A1')).toMatchObject({ state: 'running', result: null });
});

test('a lost lock is told', async () => {
  const queues = openQueues();
  await queues.add(model, JOB);
  const { taker, lost, arrived } = take(queues, { room: () => 1 - lostRoom() });
  const lostRoom = () => (lost.length > 0 ? 1 : 0);
  await arrived(1);
  const redis = plainConnection();
  await redis.set(`bull:infer.${model}:A1:lock`, 'co-2:2');
  await expect.poll(() => lost).toEqual(['A1']);
  expect(taker.held).toBe(0);
});

test('closing puts held jobs back at once', async () => {
  const queues = openQueues();
  await queues.add(model, JOB);
  const { taker, arrived } = take(queues);
  await arrived(1);
  await taker.close();
  expect(await queues.find(model, 'A1')).toMatchObject({ state: 'waiting', attemptsMade: 0 });
});

describe('waiting for a job', () => {
  once('ends with the job', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    const waiting = queues.wait(model, 'A1', 20_000);
    const { taker, arrived } = take(queues);
    await arrived(1);
    await taker.complete('A1', 7);
    expect(await waiting).toMatchObject({ state: 'completed', result: 7 });
  });

  once('ends at once for one that is over, and for none', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    const { taker, arrived } = take(queues);
    await arrived(1);
    await taker.fail('A1', 'x', false);
    expect(await queues.wait(model, 'A1', 20_000)).toMatchObject({ state: 'failed' });
    expect(await queues.wait(model, 'A2', 20_000)).toBeUndefined();
  });

  once('for its outcome alone takes that from the event, and does not read the job again', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    await queues.add(model, { ...JOB, id: 'A2' });
    const completed = queues.waitOutcome(model, 'A1', 20_000);
    const failed = queues.waitOutcome(model, 'A2', 20_000);
    const redis = plainConnection();
    // Listening begins before the job is read, so one that was read is listened for.
    await expect.poll(async () => /cmd=xread/.test(String(await redis.client('LIST')))).toBe(true);
    const read = async () => Number(/cmdstat_hgetall:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
    const events = `bull:infer.${model}:events`;
    await redis.xadd(events, '*', 'event', 'failed', 'jobId', 'A2', 'failedReason', 'INTERNAL: x');
    expect(await failed).toMatchObject({
      state: 'failed',
      failedReason: 'INTERNAL: x',
      finishedMs: expect.any(Number),
    });
    const before = await read();
    await redis.xadd(events, '*', 'event', 'completed', 'jobId', 'A1', 'returnvalue', '{"y":2}');
    expect(await completed).toMatchObject({ state: 'completed', result: { y: 2 }, data: { x: 1 } });
    expect(await read()).toBe(before);
    // Redis itself knows of no end, and whoever asks for more than the outcome hears that.
    expect(await queues.wait(model, 'A1', 30)).toMatchObject({ state: 'waiting' });
  });

  once('for its outcome alone finds one that is over, whatever its result', async () => {
    const queues = openQueues();
    const { taker, arrived } = take(queues);
    for (const [index, result] of [7, null, { y: 2 }].entries()) {
      const id = `A${index}`;
      await queues.add(model, { ...JOB, id });
      await arrived(index + 1);
      await taker.complete(id, result);
      expect(await queues.waitOutcome(model, id, 20_000)).toMatchObject({ state: 'completed', result });
    }
    await queues.add(model, { ...JOB, id: 'B' });
    await arrived(4);
    await taker.fail('B', 'x', false);
    expect(await queues.waitOutcome(model, 'B', 20_000)).toMatchObject({ state: 'failed', failedReason: 'x' });
    expect(await queues.waitOutcome(model, 'none', 20_000)).toBeUndefined();
  });

  once('ends with its time, with its caller and with the queues', async () => {
    const queues = openQueues();
    await queues.add(model, JOB);
    expect(await queues.wait(model, 'A1', 30)).toMatchObject({ state: 'waiting' });
    const caller = new AbortController();
    const left = queues.wait(model, 'A1', 20_000, caller.signal);
    const closed = queues.wait(model, 'A1', 20_000);
    await expect.poll(() => queues.waiters).toBe(2);
    caller.abort();
    expect(await left).toMatchObject({ state: 'waiting' });
    await queues.close();
    expect(await closed).toMatchObject({ state: 'waiting' });
    expect(queues.waiters).toBe(0);
  });

  once(
    'goes on by itself when its connections break, without the 5 s for which BullMQ then hears nothing',
    async () => {
      const queues = openQueues();
      const { taker, arrived } = take(queues);
      await queues.add(model, JOB);
      await arrived(1);
      const waited = queues.wait(model, 'A1', 60_000);
      const admin = new Redis({ path: server.socket });
      cleanups.push(() => admin.disconnect());
      const listening = async () => /cmd=xread/.test(String(await admin.client('LIST')));
      await expect.poll(listening).toBe(true);
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await expect.poll(listening, { timeout: 4_000 }).toBe(true);
      await taker.complete('A1', 'late');
      expect(await waited).toMatchObject({ state: 'completed', result: 'late' });
    },
  );

  once('misses none of 1,000 short jobs (BC-127)', async () => {
    const queues = openQueues();
    const taking: Taking = take(queues, {
      room: () => 64 - taking.taker.held,
      taken(job) {
        setTimeout(() => void taking.taker.complete(job.id, job.data), 1);
        return true;
      },
    });
    const results = await Promise.all(
      Array.from({ length: 1000 }, async (_, index) => {
        await queues.add(model, { ...JOB, id: `A${index}`, data: index });
        return (await queues.wait(model, `A${index}`, 25_000))?.result;
      }),
    );
    expect(results).toEqual(Array.from({ length: 1000 }, (_, index) => index));
  });
});

test('a plain BullMQ producer gets its return value', async () => {
  const queues = openQueues();
  const { name, prefix } = queues.queue(model);
  expect({ name, prefix }).toEqual({ name: `infer.${model}`, prefix: 'bull' });
  const redis = plainConnection();
  const queue = new Queue(name, { connection: redis });
  const events = new QueueEvents(name, { connection: redis, lastEventId: '0' });
  cleanups.push(
    () => queue.close(),
    () => events.close(),
  );
  await events.waitUntilReady();
  const { taker, taken, arrived } = take(queues);
  const job = await queue.add('anything', { x: 1 });
  await arrived(1);
  expect(taken[0]?.id).toBe(job.id);
  await taker.complete(job.id ?? '', { y: 2 });
  expect(await job.waitUntilFinished(events, 10_000)).toEqual({ y: 2 });
});

test('asking after a job makes no queue', async () => {
  const queues = openQueues();
  await queues.find('never', 'x');
  expect(await plainConnection().keys('*never*')).toEqual([]);
});

test('without Redis a caller is told, and jobs go on once it is back', async () => {
  const own = await startRedisServer(['--appendonly', 'yes', '--appendfsync', 'always']);
  const clock = systemClock();
  const connector = connectRedis(own.url, { name: 'gateway:1' });
  const queues = createJobQueues({ connector, timing: timing(SCALE), clock, log, scripts });
  try {
    await queues.add(model, JOB);
    const results: string[] = [];
    let down = false;
    const taking: Taking = take(queues, {
      room: () => 1 - taking.taker.held,
      taken({ id }) {
        results.push(id);
        if (down) void taking.taker.complete(id, 'again');
        return true;
      },
    });
    await expect.poll(() => results).toEqual(['A1']);
    down = true;
    await own.kill('SIGKILL');
    const failure = await queues.add(model, { ...JOB, id: 'A2' }).catch((error) => error);
    expect(failure.code).toBe('UNAVAILABLE');
    const ended = taking.taker.complete('A1', 'late');
    await own.start();
    // Its lock has run out meanwhile: it is another's, or it runs once more.
    await ended;
    await queues.add(model, { ...JOB, id: 'A2' });
    expect(await queues.wait(model, 'A1', 20_000)).toMatchObject({ state: 'completed' });
    expect(await queues.wait(model, 'A2', 20_000)).toMatchObject({ state: 'completed', result: 'again' });
    await taking.taker.close();
  } finally {
    await queues.close();
    connector.close();
    await own.stop();
  }
});
