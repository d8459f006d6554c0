/** What is asked of Redis may be asked again, as where a connection breaks in between: nothing is lost or doubled. */
import { createLog, systemClock } from '@nereid/runtime';
import { type Job, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { StoredJob } from './jobs.ts';
import { createDeliveries } from './jobs-deliveries.ts';
import { createDeadLetters } from './jobs-letters.ts';
import { jobQueueName, type QueueKind } from './jobs-names.ts';
import type { JobsLink } from './jobs-safe-writes.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';

const KINDS: readonly QueueKind[] = ['infer', 'dead', 'hooks'];
const ended = { model: 'm', id: 'A1', state: 'failed', data: null } as unknown as StoredJob;
let server: RedisServerFixture;
let redis: Redis;
let models = 0;
let model: string;
let queues: Readonly<Record<QueueKind, Queue>>;
let failures: number;

beforeAll(async () => {
  server = await startRedisServer();
  redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});
beforeEach(() => {
  model = `m${++models}`;
  failures = 0;
  const [infer, dead, hooks] = KINDS.map((kind) => new Queue(jobQueueName(model, kind), { connection: redis }));
  queues = { infer, dead, hooks } as typeof queues;
});
afterEach(() => Promise.all(KINDS.map((kind) => queues[kind].close())));

const link: JobsLink = {
  async ask(question) {
    for (;;) {
      try {
        return await question();
      } catch (error) {
        if (++failures > 3) throw error;
      }
    }
  },
  queue: (_model, kind = 'infer') => queues[kind],
  client: () => redis,
};

/** The call of that number fails before it has done anything. */
function failOnce(queue: Queue, method: 'add' | 'getJob', at: number): void {
  const call = queue[method].bind(queue) as (...args: readonly unknown[]) => Promise<unknown>;
  let calls = 0;
  const failing = async (...args: readonly unknown[]) => {
    if (++calls === at) throw new Error('the connection broke');
    return call(...args);
  };
  Object.assign(queue, { [method]: failing });
}

const letters = () => createDeadLetters({ clock: systemClock(), link, safe: link });

async function died(job: Job): Promise<void> {
  await letters().bury(model, job, 'INTERNAL: x', undefined);
  await job.remove();
}

test('a webhook that waits is sent again though its first adding fails', async () => {
  const deliveries = createDeliveries({
    ...{ clock: systemClock(), log: createLog({ level: 'silent' }), link, safe: link, together: true },
    names: (of, kind) => ({ name: jobQueueName(of, kind), prefix: 'bull' }),
  });
  await deliveries.add(model, 'A1', { url: 'http://a.example/', ended });
  failOnce(queues.hooks, 'add', 1);
  expect(await deliveries.resend(model, 'A1')).toBe(true);
  expect(failures).toBe(1);
  expect(await deliveries.find(model, 'A1')).toMatchObject({ url: 'http://a.example/', state: 'waiting' });
});

test.each([undefined, 'A1'])('a dead letter is replayed once though its removal fails (id %s)', async (jobId) => {
  const job = await queues.infer.add('x', { inputs: [1] }, jobId === undefined ? {} : { jobId });
  await died(job);
  // The second time to remove it.
  failOnce(queues.dead, 'getJob', 2);
  expect(await letters().replay(model, job.id ?? '')).toBe('replayed');
  expect(failures).toBe(1);
  expect(await queues.infer.getJobCountByTypes('waiting')).toBe(1);
  expect(await letters().find(model, job.id ?? '')).toBeUndefined();
});

test('a job of a scheduler whose name has a colon has a dead letter, and runs again', async () => {
  const job = (await queues.infer.upsertJobScheduler('each:minute', { every: 60_000 }, { name: 'x', data: 1 })) as Job;
  expect(job.id).toMatch(/^repeat:each:minute:\d+$/);
  await letters().bury(model, job, 'INTERNAL: x', undefined);
  await queues.infer.removeJobScheduler('each:minute');
  await job.remove();
  const [letter] = await letters().list(model, undefined, 10);
  expect(letter).toMatchObject({ id: job.id, data: 1 });
  expect(await letters().replay(model, job.id ?? '')).toBe('replayed');
  expect(failures).toBe(0);
  expect(await letters().list(model, undefined, 10)).toEqual([]);
});
