import { createLog, systemClock, virtualClock } from '@nereid/runtime';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { JobQueues, JobTaker, NewJob, TakenJob } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { needsInputs, sweepOnce } from './jobs-payload-sweep.ts';
import { jobOfPayload } from './jobs-payloads.ts';
import { connectRedis } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const log = createLog({ level: 'silent' });
const keys = redisKeys('nereid');
const DATA = Buffer.from([1, 2, 3, 4]);

let server: RedisServerFixture;
let redis: Redis;
let queues: JobQueues;
let cleanups: (() => unknown)[] = [];
let model: string;
let models = 0;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  models++;
  model = `a b${models}`;
  redis = new Redis({ path: server.socket });
  const clock = systemClock();
  const connector = connectRedis(server.url, { name: 'test:1' });
  queues = createJobQueues({ connector, timing: timing(0.4), clock, log });
  cleanups.push(async () => {
    await queues.close();
    connector.close();
    redis.disconnect();
    expect(clock.liveTimers).toBe(0);
  });
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

function take() {
  const taken: TakenJob[] = [];
  const taker: JobTaker = queues.take(model, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken: (job) => taken.push(job) > 0,
    lost: () => {},
  });
  cleanups.push(() => taker.close());
  return { taker, taken, arrived: (count: number) => expect.poll(() => taken.length).toBe(count) };
}

const named = (ref: string) => ({ name: 'A', datatype: 'UINT8', shape: [4], blob: { ref, byte_size: 4 } });

async function add(id: string, more: Partial<NewJob> = {}): Promise<void> {
  const job = { id, createdMs: Date.now(), data: {}, priority: 0, delayMs: 0, attempts: 1, resultTtlS: 60 };
  await queues.add(model, { ...job, ...more });
}

/** A job with a payload; its key. */
async function addLarge(id: string): Promise<string> {
  const ref = queues.payloads.inputRef(model, id, 0);
  await add(id, { data: { inputs: [named(ref)], result_ttl_s: 60 }, blobs: new Map([[ref, DATA]]) });
  return keys.payload(ref);
}

test('a job comes with the payloads that it names, in its turn', async () => {
  await addLarge('j1');
  await add('j2');
  const { taken, arrived } = take();
  await arrived(2);
  expect(taken.map(({ id }) => id)).toEqual(['j1', 'j2']);
  expect(Array.from(taken[0]?.blobs?.values() ?? [])).toEqual([DATA]);
});

test('one that is not there is left out, and one of another job keeps its time', async () => {
  const put = await queues.payloads.put(DATA, 100, Date.now());
  await add('j1', { data: { inputs: [named(put), named('gone')] } });
  const { taken, arrived } = take();
  await arrived(1);
  expect(Array.from(taken[0]?.blobs ?? [])).toEqual([[put, DATA]]);
  expect(await redis.ttl(keys.payload(put))).toBeGreaterThan(90);
});

test('inputs have no end to their time before their job is completed, and go then', async () => {
  const key = await addLarge('j1');
  const { taker, arrived } = take();
  await arrived(1);
  expect(await redis.ttl(key)).toBe(-1);
  await taker.complete('j1', {});
  await expect.poll(() => redis.exists(key)).toBe(0);
});

test('inputs of a job whose end is not ours stay', async () => {
  const key = await addLarge('j1');
  const { taker, arrived } = take();
  await arrived(1);
  await redis.set(`bull:infer.${encodeURIComponent(model)}:j1:lock`, 'co-2:2');
  await taker.complete('j1', {});
  expect((await queues.find(model, 'j1'))?.state).toBe('running');
  expect(await redis.ttl(key)).toBe(-1);
});

test('inputs of a failed job stay as long as it is told, those of a dead letter until it goes', async () => {
  const wrong = await addLarge('j1');
  const dead = await addLarge('j2');
  const { taker, arrived } = take();
  await arrived(2);
  await taker.fail('j1', 'INVALID_ARG: x', false);
  await expect.poll(() => redis.ttl(wrong)).toBeGreaterThan(50);
  await taker.fail('j2', 'INTERNAL: x', true);
  expect(await redis.ttl(dead)).toBe(-1);
  // Replayed, it has them again.
  expect(await queues.letters.replay(model, 'j2')).toBe('replayed');
  await arrived(3);
});

test('what a result names is there before it, and for its time', async () => {
  await add('j1');
  const { taker, arrived } = take();
  await arrived(1);
  const ref = queues.payloads.outputRef(model, 'j1', 0);
  await taker.complete('j1', { outputs: [named(ref)] }, undefined, { blobs: new Map([[ref, DATA]]), ttlS: 30 });
  expect((await queues.find(model, 'j1'))?.state).toBe('completed');
  expect(Array.from(await queues.payloads.read([ref]))).toEqual([[ref, DATA]]);
  expect(await redis.ttl(keys.payload(ref))).toBeGreaterThan(20);
  expect(queues.payloads.outputRef(model, 'j1', 0)).not.toBe(ref);
});

test('a reference tells its job', () => {
  expect(jobOfPayload(queues.payloads.inputRef('a.i0', 'j.1', 3))).toBe('a.i0~j.1');
  expect(jobOfPayload(queues.payloads.outputRef('a.i0', 'j.1', 3))).toBe('a.i0~j.1');
  expect(jobOfPayload('blob-01J0')).toBeUndefined();
});

test('the sweep takes what a job leaves that is gone, and nothing else', async () => {
  const orphan = keys.payload(queues.payloads.inputRef(model, 'never', 0));
  const kept = await addLarge('j1');
  const late = queues.payloads.inputRef(model, 'late', 0);
  const put = keys.payload(await queues.payloads.put(DATA, 100, Date.now()));
  await redis.set(orphan, DATA);
  await redis.set(keys.payload(late), DATA);
  const there = new Set([`${encodeURIComponent(model)}~j1`]);
  const clock = virtualClock();
  const looked: string[] = [];
  const swept = sweepOnce({
    clock,
    log,
    client: () => redis,
    keys,
    isNeeded: async (id) => {
      looked.push(id);
      return there.has(id);
    },
    signal: new AbortController().signal,
  });
  await expect.poll(() => clock.liveTimers).toBe(1);
  // Its add came after its payload.
  there.add(`${encodeURIComponent(model)}~late`);
  clock.advanceUs(60_000_000);
  await swept;
  expect(await Promise.all([orphan, kept, keys.payload(late), put].map((key) => redis.exists(key)))).toEqual([
    0, 1, 1, 1,
  ]);
});

test('a job needs its inputs until it is completed, and as long as its dead letter is there', async () => {
  for (const id of ['waits', 'done', 'wrong', 'dead']) await addLarge(id);
  const { taker, arrived } = take();
  await arrived(4);
  await taker.complete('done', {});
  await taker.fail('wrong', 'INVALID_ARG: x', false);
  await taker.fail('dead', 'INTERNAL: x', true);
  await queues.changes.remove(model, 'dead');
  const keyOf = (of: string, kind: string, name: string) => `bull:${kind}.${encodeURIComponent(of)}:${name}`;
  const needed = (id: string) => needsInputs(redis, keyOf, `${encodeURIComponent(model)}~${id}`);
  expect(await Promise.all(['waits', 'done', 'wrong', 'dead', 'never'].map(needed))).toEqual([
    true,
    false,
    true,
    true,
    false,
  ]);
});

test('a Redis without memory is told at once, and its use for an admission', async () => {
  await queues.find(model, 'x');
  expect(await queues.memory()).toBeUndefined();
  await redis.config('SET', 'maxmemory', '1mb');
  try {
    expect(await queues.memory()).toMatchObject({ max: 1_048_576, used: expect.any(Number) });
    await expect(add('j1')).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'redis_full' });
  } finally {
    await redis.config('SET', 'maxmemory', '0');
  }
});
