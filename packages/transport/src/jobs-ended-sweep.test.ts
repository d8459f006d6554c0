import { type Clock, createLog, systemClock } from '@nereid/runtime';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createJobQueues } from './jobs-bullmq.ts';
import { createEndedRound, SWEEP_EVERY_MS } from './jobs-ended-sweep.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const HOUR_MS = 3_600_000;
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

test('jobs that are over go when their own time is, whatever else ends', async () => {
  const queue = new Queue('infer.m', { connection: redis });
  const hour = { age: 3_600 };
  const day = { age: 86_400 };
  await queue.addBulk([
    { name: 'x', data: 1, opts: { jobId: 'hour', removeOnComplete: hour, removeOnFail: day } },
    { name: 'x', data: 1, opts: { jobId: 'day', removeOnComplete: day, removeOnFail: hour } },
    { name: 'x', data: 1, opts: { jobId: 'for-ever' } },
    { name: 'x', data: 0, opts: { jobId: 'failed-hour', removeOnComplete: day, removeOnFail: hour } },
    { name: 'x', data: 0, opts: { jobId: 'failed-day', removeOnComplete: hour, removeOnFail: day } },
  ]);
  const worker = new Worker('infer.m', async ({ data }) => data || Promise.reject(new Error('x')), {
    connection: redis,
  });
  await expect.poll(() => queue.getJobCountByTypes('completed', 'failed')).toBe(5);
  await worker.close();

  const clock = systemClock();
  let lateMs = 0;
  const later = { ...clock, wallMs: () => clock.wallMs() + lateMs };
  const round = createEndedRound({ clock: later, client: () => redis });
  const left = async () => (await queue.getRanges(['completed', 'failed'])).toSorted((a, b) => a.localeCompare(b));
  expect(await round(queue)).toBe(0);
  lateMs = HOUR_MS + 1_000;
  // Of whoever writes by no library; they keep no others, and go where their time is known.
  await redis.hset(queue.toKey('for-ever'), 'opts', 'no JSON');
  await redis.hset(queue.toKey('hour'), 'data', '{"x":NaN}');
  // One that is run anew meanwhile.
  await (await queue.getJob('failed-hour'))?.retry('failed');
  expect(await round(queue)).toBe(1);
  expect(await left()).toEqual(['day', 'failed-day', 'for-ever']);
  expect(await queue.getJobState('failed-hour')).toBe('waiting');
  lateMs = 24 * HOUR_MS + 1_000;
  expect(await round(queue)).toBe(2);
  expect(await left()).toEqual(['for-ever']);
  await queue.close();
});

test('whoever takes jobs of a model sweeps its queue, also when no more come', async () => {
  const clock = systemClock();
  // A minute is over at once.
  const at: Clock['at'] = (us, call) => {
    const isMinute = Math.abs(us - clock.nowUs() - SWEEP_EVERY_MS * 1000) < 1e6;
    return clock.at(isMinute ? clock.nowUs() + 20_000 : us, call);
  };
  const connector = connectRedis(server.url, { name: 'test' });
  const log = createLog({ level: 'silent' });
  const queues = createJobQueues({ connector, timing: timing(), clock: { ...clock, at }, log });
  const job = { createdMs: Date.now(), data: {}, priority: 0, delayMs: 0, attempts: 1, resultTtlS: 60 };
  await queues.add('swept', { id: 'A', ...job });
  const taker = queues.take('swept', {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken({ id }) {
      void taker.complete(id, 1);
      return true;
    },
    lost: () => {},
  });
  expect(await queues.wait('swept', 'A', 20_000)).toMatchObject({ state: 'completed' });
  const longAgo = Date.now() - 2 * HOUR_MS;
  await redis.hset('bull:infer.swept:A', 'finishedOn', longAgo);
  await redis.zadd('bull:infer.swept:completed', longAgo, 'A');
  await expect.poll(() => queues.find('swept', 'A')).toBeUndefined();
  await taker.close();
  await queues.close();
  connector.close();
});
