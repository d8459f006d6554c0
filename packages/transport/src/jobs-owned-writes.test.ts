import { createLog, systemClock } from '@nereid/runtime';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { JobQueues, JobTaker } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const MIB = 1_048_576;
let server: RedisServerFixture;
let redis: Redis;
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

describe.each([true, false])('by our scripts: %s', (scripts) => {
  const model = `m-${scripts}`;

  /** `taken` is called for each job. */
  function open(taken: (id: string) => void): { readonly queues: JobQueues; readonly taker: JobTaker } {
    const connector = connectRedis(server.url, { name: 'coordinator:1' });
    const log = createLog({ level: 'silent' });
    const queues = createJobQueues({ connector, timing: timing(), clock: systemClock(), log, scripts });
    const taker = queues.take(model, {
      by: 'co-1',
      token: () => 'co-1:1',
      room: () => 4,
      taken({ id }) {
        taken(id);
        return true;
      },
      lost: () => {},
    });
    cleanups.push(async () => {
      await taker.close();
      await queues.close();
      connector.close();
    });
    return { queues, taker };
  }

  const add = (queues: JobQueues, id: string) =>
    queues.add(model, { id, createdMs: Date.now(), data: {}, priority: 0, delayMs: 0, attempts: 1, resultTtlS: 60 });

  test('who lost the lock of a job tells nothing of it any more, nor ends it (R32)', async () => {
    const ids: string[] = [];
    const { queues, taker } = open((id) => ids.push(id));
    await add(queues, 'A1');
    await expect.poll(() => ids).toEqual(['A1']);
    taker.progress('A1', { n: 1 }, 5);
    await expect.poll(async () => (await queues.find(model, 'A1'))?.progress).toEqual({ n: 1 });
    // As an owner of a later epoch has it.
    await redis.set(`bull:infer.${model}:A1:lock`, 'co-2:2', 'PX', 60_000);
    taker.progress('A1', { n: 2 }, 5);
    // Which is behind what was told.
    await taker.complete('A1', 'of a zombie');
    expect(await queues.find(model, 'A1')).toMatchObject({ state: 'running', progress: { n: 1 }, result: null });
  });

  test('results of a megabyte fill a queue’s events to some 80 MB, not for 10,000 of them', async () => {
    const result = 'x'.repeat(MIB);
    const ends: Promise<void>[] = [];
    const { queues, taker } = open((id) => void ends.push(taker.complete(id, result)));
    const jobs = 96;
    for (let index = 0; index < jobs; index++) await add(queues, `B${index}`);
    await expect.poll(() => ends.length, { timeout: 60_000 }).toBe(jobs);
    await Promise.all(ends);
    const size = () => redis.memory('USAGE', `bull:infer.${model}:events`, 'SAMPLES', 0);
    await expect.poll(size).toBeLessThan(85 * MIB);
    await queues.openBullQueue(model, 'infer').obliterate({ force: true });
  }, 90_000);
});
