/** What producers set in BullMQ means what it means to a stock Worker: both ways of taking jobs. */
import { createLog, systemClock } from '@nereid/runtime';
import { FlowProducer, type JobsOptions, Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { JobTaker } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

/** A wait for jobs takes 5 s where nothing tells of one. */
const SOON = { timeout: 3_000, interval: 10 };
const log = createLog({ level: 'silent' });
let server: RedisServerFixture;
let redis: Redis;
let models = 0;
let cleanups: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startRedisServer();
  redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

describe.each([
  ['our scripts', true],
  ["BullMQ's public API", false],
])('by %s', (_, scripts) => {
  /** A queue, and who takes its jobs. */
  const open = () => {
    const model = `m${++models}`;
    const queue = new Queue(`infer.${model}`, { connection: redis });
    const connector = connectRedis(server.url, { name: 'coordinator:1' });
    const queues = createJobQueues({ connector, timing: timing(), clock: systemClock(), log, scripts });
    cleanups.push(
      () => connector.close(),
      () => queues.close(),
      () => queue.close(),
    );
    const ids: string[] = [];
    const take = (token = 'co-1:1'): JobTaker => {
      const taker = queues.take(model, {
        by: 'co-1',
        token: () => token,
        room: () => 10,
        taken: ({ id }) => ids.push(id) > 0,
        lost: () => {},
      });
      cleanups.push(() => taker.close());
      return taker;
    };
    const add = (jobId: string, opts: JobsOptions = {}) => queue.add('x', {}, { jobId, ...opts });
    return { queue, take, ids, add };
  };

  test('a new owner takes the jobs of a former one first, in their order, and leaves those of a stock worker', async () => {
    const { queue, take, ids, add } = open();
    const connection = redis.duplicate();
    const stock = new Worker(queue.name, null, { connection, autorun: false });
    cleanups.push(
      () => connection.disconnect(),
      () => stock.close(),
    );
    await add('stock');
    await stock.getNextJob('stock-token');
    for (const id of ['a', 'b', 'c']) {
      await add(id);
      // Of an owner that takes no more.
      await stock.getNextJob('co-1:1');
    }
    await queue.pause();
    await add('d');
    take('co-2:2');
    await expect.poll(() => queue.getJobCountByTypes('active'), SOON).toBe(1);
    await queue.resume();
    await expect.poll(() => ids, SOON).toEqual(['a', 'b', 'c', 'd']);
    expect(await queue.getJobState('stock')).toBe('active');
  });

  test.each<[string, (taker: JobTaker, id: string) => Promise<void>]>([
    ['is completed', (taker, id) => taker.complete(id, 1)],
    ['has failed', (taker, id) => taker.fail(id, 'x', false)],
    ['is to be tried again later', (taker, id) => taker.fail(id, 'x', true)],
    ['goes back for a while', (taker, id) => taker.putBack(id, 60_000)],
  ])('of a queue that runs two jobs at a time the next is taken once one %s', async (_end, end) => {
    const { queue, take, ids, add } = open();
    await queue.setGlobalConcurrency(2);
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const name of names) await add(name, { attempts: 2, backoff: 60_000 });
    const taker = take();
    await expect.poll(() => ids, SOON).toEqual(['a', 'b']);
    await Promise.all([end(taker, 'a'), end(taker, 'b')]);
    await expect.poll(() => ids, SOON).toEqual(['a', 'b', 'c', 'd']);
    await end(taker, 'c');
    await expect.poll(() => ids, SOON).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  test('a log has as many rows as its producer wants to keep', async () => {
    const { queue, take, ids, add } = open();
    const job = await add('a', { keepLogs: 2 });
    await job.log('one');
    await job.log('two');
    const taker = take();
    await expect.poll(() => ids, SOON).toEqual(['a']);
    await taker.complete('a', 1, 'note');
    await expect.poll(async () => (await queue.getJobLogs('a')).logs, SOON).toEqual(['two', 'note']);
  });

  test.each<[string, JobsOptions]>([
    ['a part of a job', { removeOnComplete: { count: 1.5 } }],
    ['more jobs than can be', { removeOnComplete: { count: 1e300 } }],
    ['no age, and a part of one at a time', { removeOnComplete: { age: 60, limit: 0.5 } }],
    ['more rows of its log than can be', { keepLogs: 1e30 }],
  ])('a job that is to keep %s ends, and so do those beside it', async (_what, opts) => {
    const { queue, take, ids, add } = open();
    await add('a');
    await add('b', opts);
    await add('c');
    const taker = take();
    await expect.poll(() => ids, SOON).toEqual(['a', 'b', 'c']);
    void Promise.all(ids.map((id) => taker.complete(id, 1, 'note')));
    await expect.poll(() => queue.getActiveCount(), SOON).toBe(0);
  });

  test('a job whose keys are not what they should be keeps none beside it from ending', async () => {
    const { queue, take, ids, add } = open();
    for (const id of ['a', 'b', 'c']) await add(id);
    const taker = take();
    await expect.poll(() => ids, SOON).toEqual(['a', 'b', 'c']);
    await redis.set(queue.toKey('b:logs'), 'no list');
    void Promise.all(ids.map((id) => taker.complete(id, 1, 'note')));
    await expect.poll(async () => (await queue.getCompleted()).map(({ id }) => id).sort(), SOON).toContain('c');
    await redis.del(queue.toKey('b:logs'));
    await expect.poll(() => queue.getActiveCount(), SOON).toBe(0);
  });

  test.each([
    ['has not ended', { ignoreDependencyOnFailure: true }, /^INVALID_ARG: .* continueParentOnFailure$/],
    ['has failed it', { failParentOnFailure: true }, /^INVALID_ARG: .* failParentOnFailure has failed$/],
  ])('a job that runs while one below it %s fails, and is not run again', async (_left, policy, reason) => {
    const { queue, take, ids } = open();
    const flows = new FlowProducer({ connection: redis });
    cleanups.push(() => flows.close());
    const child = (jobId: string, opts: JobsOptions) => ({
      name: 'x',
      queueName: queue.name,
      opts: { jobId, ...opts },
    });
    await flows.add({
      ...child('parent', {}),
      children: [child('first', { continueParentOnFailure: true }), child('second', { delay: 60_000, ...policy })],
    });
    const taker = take();
    await expect.poll(() => ids, SOON).toEqual(['first']);
    await taker.fail('first', 'x', false);
    await expect.poll(() => ids, SOON).toEqual(['first', 'parent']);
    if ('failParentOnFailure' in policy) {
      await (await queue.getJob('second'))?.promote();
      await expect.poll(() => ids, SOON).toEqual(['first', 'parent', 'second']);
      await taker.fail('second', 'x', false);
    }
    await taker.complete('parent', 1);
    const parent = await queue.getJob('parent');
    expect(await parent?.getState()).toBe('failed');
    expect(parent?.failedReason).toMatch(reason);
  });
});
