import { createLog, systemClock } from '@nereid/runtime';
import { FlowProducer, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JobListPlace, JobQueues, JobState, JobTaker, NewJob, StoredJob, TakenJob } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const MINUTE_MS = 60_000;

let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];
let queues: JobQueues;
let redis: Redis;
let model: string;
let models = 0;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  models++;
  model = `m${models}`;
  const clock = systemClock();
  const connector = connectRedis(server.url, { name: 'gateway:1' });
  queues = createJobQueues({ connector, timing: timing(), clock, log: createLog({ level: 'silent' }) });
  redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  cleanups.push(
    () => redis.disconnect(),
    async () => {
      await queues.close();
      connector.close();
    },
  );
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

const add = (id: string, more: Partial<NewJob> = {}, of = model) =>
  queues.add(of, {
    id,
    createdMs: Date.now(),
    data: { x: id },
    priority: 0,
    delayMs: 0,
    attempts: 1,
    resultTtlS: 60,
    ...more,
  });

/** Takes so many jobs, and no more. */
async function take(count: number, of = model): Promise<{ readonly taker: JobTaker; readonly jobs: TakenJob[] }> {
  const jobs: TakenJob[] = [];
  const taker = queues.take(of, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => count - jobs.length,
    taken: (job) => jobs.push(job) > 0,
    lost: () => {},
  });
  cleanups.push(() => taker.close());
  await expect.poll(() => jobs.length).toBe(count);
  return { taker, jobs };
}

describe('cancel', () => {
  test('marks a waiting job for whoever takes it', async () => {
    await add('A1');
    expect(await queues.changes.cancel(model, 'A1')).toMatchObject({
      state: 'waiting',
      data: { x: 'A1', cancelled: true },
    });
    const { jobs } = await take(1);
    expect(jobs[0]?.data).toEqual({ x: 'A1', cancelled: true });
  });

  test('lets a delayed job be taken at once', async () => {
    await add('A1', { delayMs: MINUTE_MS, priority: 5 });
    expect(await queues.changes.cancel(model, 'A1')).toMatchObject({ state: 'waiting', data: { cancelled: true } });
    await take(1);
  });

  test('marks a running job, whose owner is to end it', async () => {
    await add('A1');
    const { taker } = await take(1);
    expect(await queues.changes.cancel(model, 'A1')).toMatchObject({ state: 'running', data: { cancelled: true } });
    await taker.fail('A1', 'CANCELLED: x', false);
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'failed', failedReason: 'CANCELLED: x' });
  });

  test('marks a job that waits for its children', async () => {
    const flows = new FlowProducer({ connection: redis });
    cleanups.push(() => flows.close());
    const { name, prefix } = queues.queue(model);
    const child = { name: 'x', data: {}, queueName: 'others', prefix };
    const { job } = await flows.add({ name: 'x', data: {}, queueName: name, prefix, children: [child] });
    expect(await queues.changes.cancel(model, job.id ?? '')).toMatchObject({ data: { cancelled: true } });
  });

  test('changes nothing of a job that is over, nor one that is not there', async () => {
    await add('A1');
    const { taker } = await take(1);
    await taker.complete('A1', 7);
    expect(await queues.changes.cancel(model, 'A1')).toMatchObject({
      state: 'completed',
      data: { x: 'A1' },
      result: 7,
    });
    expect(await queues.changes.cancel(model, 'A2')).toBeUndefined();
  });

  test('leaves data that are no request: their job fails once it is taken', async () => {
    const queue = new Queue(queues.queue(model).name, { connection: redis });
    cleanups.push(() => queue.close());
    const job = await queue.add('x', 'text', { delay: MINUTE_MS });
    expect(await queues.changes.cancel(model, job.id ?? '')).toMatchObject({ data: 'text' });
  });
});

describe('retry', () => {
  test('lets a failed job run anew, with all its attempts and without the mark', async () => {
    await add('A1', { attempts: 3, priority: 7 });
    await queues.changes.cancel(model, 'A1');
    const { taker } = await take(1);
    await taker.fail('A1', 'CANCELLED: x', false);
    expect(await queues.changes.retry(model, 'A1')).toMatchObject({
      state: 'waiting',
      data: { x: 'A1' },
      attemptsMade: 0,
    });
    await taker.close();
    const again = await take(1);
    expect(again.jobs).toMatchObject([{ id: 'A1', data: { x: 'A1' }, starts: 1 }]);
  });

  test('leaves any other job as it is', async () => {
    await add('A1');
    expect(await queues.changes.retry(model, 'A1')).toMatchObject({ state: 'waiting' });
    expect(await queues.changes.retry(model, 'A2')).toBeUndefined();
  });
});

describe('remove', () => {
  test('takes all of a job away, and is harmless to repeat', async () => {
    await add('A1');
    const { taker } = await take(1);
    await taker.complete('A1', 7, 'a note');
    expect(await queues.changes.remove(model, 'A1')).toBe(true);
    expect(await queues.changes.remove(model, 'A1')).toBe(true);
    expect(await queues.find(model, 'A1')).toBeUndefined();
    expect(await redis.keys(`bull:infer.${model}:A1*`)).toEqual([]);
  });

  test('leaves a job that somebody runs', async () => {
    await add('A1');
    await take(1);
    expect(await queues.changes.remove(model, 'A1')).toBe(false);
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'running' });
  });
});

describe('the tensors of a job that stand beside it', () => {
  const tensor = (ref: string) => ({ name: 'A', datatype: 'INT8', shape: [1], blob: { ref, byte_size: 1 } });

  async function failed(): Promise<string> {
    const ref = queues.payloads.inputRef(model, 'A1', 0);
    await add('A1', { data: { inputs: [tensor(ref)] }, blobs: new Map([[ref, Uint8Array.of(7)]]) });
    const { taker } = await take(1);
    await taker.fail('A1', 'INTERNAL: x', false);
    await taker.close();
    const [key = ''] = await redis.keys(`*payload:*${model}*A1*`);
    expect(await redis.exists(key)).toBe(1);
    return key;
  }

  test('are kept for one that runs anew, however long it waits', async () => {
    const key = await failed();
    await redis.expire(key, 60);
    expect(await queues.changes.retry(model, 'A1')).toMatchObject({ state: 'waiting' });
    expect(await redis.ttl(key)).toBe(-1);
  });

  test('that are gone are told', async () => {
    const key = await failed();
    await redis.del(key);
    await expect(queues.changes.retry(model, 'A1')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      reason: 'expired',
      message: `the inputs of job '${model}~A1' are not kept any more; submit it anew`,
    });
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'failed' });
  });

  test('and that a client had put for it are told as well', async () => {
    const ref = await queues.payloads.put(Uint8Array.of(7), 60, Date.now());
    await add('A1', { data: { inputs: [tensor(ref)] } });
    const { taker } = await take(1);
    await taker.fail('A1', 'INTERNAL: x', false);
    await redis.del(...(await redis.keys(`*payload:*${ref}*`)));
    await expect(queues.changes.retry(model, 'A1')).rejects.toMatchObject({ code: 'NOT_FOUND', reason: 'expired' });
    expect(await queues.letters.find(model, 'A1')).toBeDefined();
  });

  test('go with it', async () => {
    const key = await failed();
    expect(await queues.changes.remove(model, 'A1')).toBe(true);
    expect(await redis.exists(key)).toBe(0);
  });
});

describe('a place', () => {
  test('counts the jobs that are taken before', async () => {
    await add('p5', { priority: 5 });
    await add('p1', { priority: 1 });
    await add('first');
    await add('second');
    await add('late', { delayMs: MINUTE_MS });
    const places = await Promise.all(
      ['first', 'second', 'p1', 'p5', 'late', 'none'].map((id) => queues.place(model, id)),
    );
    expect(places).toEqual([0, 1, 2, 3, undefined, undefined]);
  });
});

describe('a list', () => {
  const ALL: ReadonlySet<JobState> = new Set(['waiting', 'delayed', 'running', 'completed', 'failed']);

  async function pages(of: readonly string[], states = ALL, limit = 2, matches = (_job: StoredJob) => true) {
    const found: string[][] = [];
    let after: JobListPlace | undefined;
    do {
      const page = await queues.list({ models: of, states, matches, limit, after });
      found.push(page.jobs.map(({ id, state }) => `${id} ${state}`));
      after = page.next;
    } while (after !== undefined);
    return found;
  }

  test('walks the states of each model, page by page', async () => {
    const other = `${model}b`;
    await add('done1');
    await add('done2');
    await add('broken');
    await add('runs');
    const { taker } = await take(4);
    await taker.complete('done1', 1);
    await taker.complete('done2', 2);
    await taker.fail('broken', 'INTERNAL: x', false);
    await add('late', { delayMs: MINUTE_MS });
    await add('p2', { priority: 2 });
    await add('p1', { priority: 1 });
    await add('w1');
    await add('w2');
    await add('x1', {}, other);
    const all = await pages([model, other]);
    expect(all.flat().sort()).toEqual(
      [
        'broken failed',
        'done1 completed',
        'done2 completed',
        'late delayed',
        'p1 waiting',
        'p2 waiting',
        'runs running',
        'w1 waiting',
        'w2 waiting',
        'x1 waiting',
      ].sort(),
    );
    expect(all.every((page) => page.length <= 2)).toBe(true);
    expect((await pages([model], new Set(['waiting']), 9)).flat()).toEqual([
      'p1 waiting',
      'p2 waiting',
      'w2 waiting',
      'w1 waiting',
    ]);
    expect((await pages([model, other], new Set(['failed']), 9)).flat()).toEqual(['broken failed']);
    expect((await pages([model], ALL, 9, ({ data }) => (data as { x: string }).x === 'p2')).flat()).toEqual([
      'p2 waiting',
    ]);
  });

  test('tells each of many jobs of one score once, and looks at a bounded number a page', async () => {
    // As many as end in one millisecond of a busy queue, and more than one look.
    const ids = Array.from({ length: 1_500 }, (_, index) => `j${String(index).padStart(4, '0')}`);
    const prefix = `bull:infer.${model}`;
    const write = redis.pipeline();
    for (const id of ids) {
      write.hset(`${prefix}:${id}`, { data: '{}', opts: '{}', timestamp: '1', finishedOn: '5', atm: '1' });
      write.zadd(`${prefix}:completed`, 5, id);
    }
    await write.exec();
    const told: string[] = [];
    let after: JobListPlace | undefined;
    let count = 0;
    do {
      const page = await queues.list({ models: [model], states: ALL, matches: () => true, limit: 700, after });
      told.push(...page.jobs.map(({ id }) => id));
      after = page.next;
      count++;
    } while (after !== undefined);
    expect(told.sort()).toEqual(ids);
    expect(count).toBe(3);
    const none = await queues.list({ models: [model], states: ALL, matches: () => false, limit: 1, after: undefined });
    expect(none.jobs).toEqual([]);
    expect(none.next).toBeDefined();
  });

  test('reads no more data for a page than a few megabytes, and one job however long it is', async () => {
    const long = { text: 'x'.repeat(3_000_000) };
    for (const id of ['a', 'b', 'c']) await add(id, { data: long, priority: 1 });
    expect(await pages([model], ALL, 9)).toEqual([['a waiting', 'b waiting'], ['c waiting']]);
  });

  test('does not make a queue by looking', async () => {
    expect(await pages(['nobody'])).toEqual([[]]);
    expect(await redis.keys('bull:infer.nobody*')).toEqual([]);
  });
});

describe('a key', () => {
  test('stands for the first job that claims it, per model, for a day', async () => {
    const first = { id: 'A1', requestHash: 'h1' };
    expect(await queues.keys.claim(model, 'k', first)).toEqual(first);
    expect(await queues.keys.claim(model, 'k', { id: 'A2', requestHash: 'h2' })).toEqual(first);
    expect(await queues.keys.claim(`${model}b`, 'k', { id: 'A3', requestHash: 'h2' })).toMatchObject({ id: 'A3' });
    await queues.keys.added(model, 'k', first);
    expect(await queues.keys.claim(model, 'k', { id: 'A2', requestHash: 'h2' })).toEqual({ ...first, added: true });
    const [name = ''] = await redis.keys(`bull:keys.${model}:*`);
    expect(await redis.ttl(name)).toBeGreaterThan(86_000);
  });

  test('that has run out does not come back', async () => {
    await queues.keys.added(model, 'k', { id: 'A1', requestHash: 'h1' });
    expect(await redis.keys(`bull:keys.${model}:*`)).toEqual([]);
  });
});
