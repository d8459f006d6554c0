import { createLog, systemClock } from '@nereid/runtime';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { JobQueues, JobTaker, TakeOptions } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { loadBullLua, readBullLua } from './jobs-lua.ts';
import { createJobScripts, type JobScripts } from './jobs-scripts.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const log = createLog({ level: 'silent' });
let server: RedisServerFixture;
let redis: Redis;
let queue: Queue;
let model: string;
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
beforeEach(() => {
  models++;
  model = `m${models}`;
  queue = new Queue(`infer.${model}`, { connection: redis });
  cleanups.push(() => queue.close());
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

function openQueues(alone = false): JobQueues & { readonly cut: () => void } {
  const connector = connectRedis(server.url, { name: 'coordinator:1' });
  const queues = createJobQueues({ connector, timing: timing(), clock: systemClock(), log, alone });
  cleanups.push(async () => {
    await queues.close();
    connector.close();
  });
  return Object.assign(queues, { cut: () => connector.close() });
}

interface Taking {
  readonly taker: JobTaker;
  readonly ids: string[];
}

function take(queues: JobQueues, token: string, room: number, more: Partial<TakeOptions> = {}): Taking {
  const ids: string[] = [];
  const taker = queues.take(model, {
    by: token,
    token: () => token,
    room: () => room - ids.length,
    taken: ({ id }) => ids.push(id) > 0,
    lost: () => {},
    ...more,
  });
  cleanups.push(() => taker.close());
  return { taker, ids };
}

/** The ids in the order in which they would be taken. */
async function waiting(): Promise<string[]> {
  const wait = await redis.lrange(`bull:infer.${model}:wait`, 0, -1);
  return [...wait.reverse(), ...(await redis.zrange(`bull:infer.${model}:prioritized`, '0', '-1'))];
}

function names(count: number, prefix = 'j'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

async function add(ids: readonly string[], priority = 0) {
  for (const jobId of ids) await queue.add('x', {}, { jobId, priority });
}

test("the installed BullMQ's Lua is what our scripts were tested with", () => {
  const lua = readBullLua();
  expect(lua?.tested, `add ${lua?.hash} once jobs-differential.test.ts passes with it`).toBe(true);
});

test('other Lua is not built upon', () => {
  const lua = loadBullLua((path) => `-- ${path} of another version`);
  expect(lua.tested).toBe(false);
  const connector = connectRedis(server.url, { name: 'coordinator:1' });
  cleanups.push(() => connector.close());
  expect(createJobScripts({ client: connector.connect('jobs').client, log, alone: false, lua })).toBeUndefined();
});

test("a former owner's jobs go back at once, oldest first and before those that wait", async () => {
  await add(names(20));
  const dying = openQueues();
  const first = take(dying, 'co-a:7', 12);
  await expect.poll(() => first.ids.length).toBe(12);
  dying.cut();
  const second = take(openQueues(), 'co-b:8', 20);
  await expect.poll(() => second.ids, { timeout: 1_000 }).toEqual(names(20));
});

test('jobs of a later owner, and of a worker that is none of ours, are left', async () => {
  await add(names(3));
  const later = take(openQueues(), 'co-a:9', 1);
  await expect.poll(() => later.ids).toEqual(['j0']);
  const stock = new Worker(queue.name, null, { connection: redis, autorun: false });
  cleanups.push(() => stock.close());
  await stock.getNextJob('6f9c:1', { block: false });
  const second = take(openQueues(), 'co-b:8', 3);
  await expect.poll(() => second.ids).toEqual(['j2']);
});

test('whoever is alone at its Redis takes the jobs of any other owner, whose epochs mean nothing to it', async () => {
  await add(names(4));
  const dying = openQueues();
  const first = take(dying, 'co-a:3', 3);
  await expect.poll(() => first.ids.length).toBe(3);
  dying.cut();
  const second = take(openQueues(true), 'co-b:1', 4);
  await expect.poll(() => second.ids, { timeout: 1_000 }).toEqual(names(4));
});

test.each([0, 100])('a taker that closes puts its jobs back in their order (priority %i)', async (priority) => {
  await add(names(15), priority);
  for (const rounds of [1, 2]) {
    const { taker, ids } = take(openQueues(), `co-a:${rounds}`, 12);
    await expect.poll(() => ids.length).toBe(12);
    await taker.close();
    // By name, ten would come before two.
    expect(await waiting()).toEqual(names(15));
  }
});

test('jobs whose lock ran out go back in the order in which they were taken', async () => {
  await add(names(30));
  const { scripts, worker } = scripted();
  await scripts.turn(worker, { ...TURN, count: 30 });
  await scripts.stalled(worker);
  const keys = names(30).map((id) => worker.toKey(`${id}:lock`));
  await redis.del(...keys, worker.toKey('stalled-check'));
  await scripts.stalled(worker);
  expect(await waiting()).toEqual(names(30));
});

const TURN = { nowMs: Date.now(), token: 'co-a:1', lockMs: 30_000, by: 'co-a', count: 0, ends: [] };

function scripted(): { readonly scripts: JobScripts; readonly worker: Worker } {
  const worker = new Worker(queue.name, null, { connection: redis, autorun: false, stalledInterval: 60_000 });
  cleanups.push(() => worker.close());
  const scripts = createJobScripts({ client: redis, log, alone: false });
  if (scripts === undefined) throw new Error('no scripts');
  return { scripts, worker };
}

test('no more is taken than the queue lets run at a time, and one that ends makes room at once', async () => {
  await queue.setGlobalConcurrency(3);
  await add(names(7));
  const { scripts, worker } = scripted();
  const taken = await scripts.turn(worker, { ...TURN, count: 16 });
  expect(taken.jobs.map(([id]) => id)).toEqual(['j0', 'j1', 'j2']);
  const ends = ['j0', 'co-a:1', 'completed', '1', '[]', '-1', '', '', '0', 'note', '64'];
  const next = await scripts.turn(worker, { ...TURN, count: 16, ends });
  expect([next.codes, next.jobs.map(([id]) => id)]).toEqual([[0], ['j3']]);
  expect(await queue.getJobLogs('j0')).toEqual({ logs: ['note'], count: 1 });
});

test("the queue's rate limit and its pause are kept", async () => {
  await queue.setGlobalRateLimit(2, 60_000);
  await add(names(5));
  const { scripts, worker } = scripted();
  const taken = await scripts.turn(worker, { ...TURN, count: 16 });
  expect(taken.jobs).toHaveLength(2);
  expect(taken.limitMs).toBeGreaterThan(50_000);
  await queue.removeGlobalRateLimit();
  await queue.pause();
  expect((await scripts.turn(worker, { ...TURN, count: 16 })).jobs).toEqual([]);
  await queue.resume();
  expect((await scripts.turn(worker, { ...TURN, count: 16 })).jobs).toHaveLength(3);
});

test('a paused queue goes on with what ends, and none is taken', async () => {
  await add(names(2));
  const { taker, ids } = take(openQueues(), 'co-a:1', 1, {
    room: () => 2 - ids.length,
    taken: ({ id }) => ids.push(id) > 0,
  });
  await expect.poll(() => ids.length).toBe(2);
  await queue.pause();
  await add(['j2']);
  await Promise.all(ids.map((id) => taker.complete(id, id)));
  expect(await queue.getJobCounts('completed', 'wait')).toEqual({ completed: 2, wait: 1 });
});
