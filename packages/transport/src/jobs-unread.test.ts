/** Jobs of whoever writes by no library of BullMQ's: what is no JSON is its own job's fault alone. */
import { createLog, systemClock } from '@nereid/runtime';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis } from './redis-connection.ts';
import { startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

test('a job whose data are no JSON fails, again where all that failed are tried again, and is listed beside others', async () => {
  const server = await startRedisServer();
  const redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  const connector = connectRedis(server.url, { name: 'test' });
  const log = createLog({ level: 'silent' });
  const queues = createJobQueues({ connector, timing: timing(), clock: systemClock(), log });
  const queue = new Queue('infer.m', { connection: redis });
  await queue.pause();
  await queue.addBulk(['a', 'b', 'c'].map((jobId) => ({ name: 'x', data: 1, opts: { jobId } })));
  await redis.hset(queue.toKey('a'), 'data', '{"x":NaN}');
  await redis.hset(queue.toKey('b'), 'opts', 'no JSON');
  await redis.hset(queue.toKey('c'), 'data', '2', 'opts', 'no JSON');
  await queue.resume();
  const taker = queues.take('m', {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken({ id, data }) {
      if (data === 1) void taker.complete(id, 1);
      else void taker.fail(id, data === undefined ? 'INVALID_ARG: x' : 'INTERNAL: x', false);
      return true;
    },
    lost: () => {},
  });
  const listed = async () => {
    const states = new Set(['waiting', 'running', 'completed', 'failed'] as const);
    const query = { models: ['m'], states, after: undefined, limit: 10, matches: () => true };
    return (await queues.list(query)).jobs.map(({ id, state, attemptsMade }) => [id, state, attemptsMade]);
  };
  // Without the dead letter of the last one, which cannot be read.
  await expect.poll(() => queue.getJobCountByTypes('completed', 'failed'), { timeout: 4_000 }).toBe(3);
  expect(await listed()).toEqual([
    ['b', 'completed', 1],
    ['c', 'failed', 1],
    ['a', 'failed', 1],
  ]);
  await expect(queues.find('m', 'a')).rejects.toMatchObject({ code: 'INTERNAL' });
  await queue.remove('c');
  await queue.retryJobs({ state: 'failed' });
  await expect.poll(listed).toEqual([
    ['b', 'completed', 1],
    ['a', 'failed', 2],
  ]);
  await taker.close();
  await queues.close();
  await queue.close();
  connector.close();
  redis.disconnect();
  await server.stop();
});
