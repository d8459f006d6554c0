import { createLog, systemClock } from '@nereid/runtime';
import { type JobsOptions, Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { createJobQueues } from './jobs-bullmq.ts';
import { PARKED_MS_MAX } from './jobs-gate-text.ts';
import { createJobScripts, type JobScripts } from './jobs-scripts.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const TOKEN = 'co-a:1';
let server: RedisServerFixture;
let redis: Redis;
let queue: Queue;
let worker: Worker;
let scripts: JobScripts;
let nowMs: number;
let queues = 0;

beforeAll(async () => {
  server = await startRedisServer();
  redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  const made = createJobScripts({ client: redis, log: createLog({ level: 'silent' }), alone: false });
  if (made === undefined) throw new Error('no scripts');
  scripts = made;
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});
beforeEach(() => {
  const name = `infer.m${++queues}`;
  queue = new Queue(name, { connection: redis });
  worker = new Worker(name, null, { connection: redis, autorun: false, stalledInterval: 60_000 });
  nowMs = Date.now();
});
afterEach(async () => {
  await worker.close();
  await queue.close();
});

interface Step {
  readonly sequence?: unknown;
  readonly end?: boolean;
  readonly more?: object;
  readonly opts?: JobsOptions;
}

async function add(jobId: string, index: number, { sequence = 7, end = false, more = {}, opts = {} }: Step = {}) {
  const parameters = { sequence_id: sequence, sequence_start: index === 0, sequence_end: end };
  await queue.add('x', { sequence_index: index, parameters, inputs: [], ...more }, { jobId, ...opts });
}

/** Ends some jobs and takes what may be taken; the ids. */
async function turn(ends: readonly string[] = [], target = 'completed', count = 16): Promise<string[]> {
  const fields = ends.flatMap((id) => [
    id,
    TOKEN,
    target,
    target === 'completed' ? '1' : 'INTERNAL: x',
    '[]',
    '-1',
    '',
    '',
    '0',
    '',
    '1',
  ]);
  const args = { nowMs, token: TOKEN, lockMs: 30_000, by: 'co-a', count, ends: fields };
  const { codes, jobs } = await scripts.turn(worker, args);
  expect(codes).toEqual(ends.map(() => 0));
  return jobs.map(([id]) => id);
}

test('steps that are taken before their sequence has begun go to the owner, who goes by their number', async () => {
  for (const index of [3, 1, 0, 2]) await add(`s${index}`, index);
  await add('other', 0, { sequence: 'another' });
  await queue.add('x', { inputs: [] }, { jobId: 'plain' });
  expect(await turn([], 'completed', 2)).toEqual(['s3', 's1']);
  await scripts.putBack(worker, nowMs, ['s3', TOKEN, 's1', TOKEN]);
  await turn([], 'completed', 0);
  expect(await queue.getWaitingCount()).toBe(6);
});

test('once its sequence has begun a step is taken when those before it are over, whatever their order in the queue (R34)', async () => {
  await add('s0', 0);
  expect(await turn()).toEqual(['s0']);
  for (const index of [3, 1, 2]) await add(`s${index}`, index, { end: index === 3 });
  await queue.add('x', { inputs: [] }, { jobId: 'plain' });
  expect(await turn()).toEqual(['plain']);
  expect(await queue.getJobCounts('delayed', 'active', 'wait')).toEqual({ delayed: 3, active: 2, wait: 0 });
  expect(await turn(['s0'])).toEqual(['s1']);
  expect(await turn(['s1', 'plain'])).toEqual(['s2']);
  // One that has failed is over, too.
  expect(await turn(['s2'], 'failed')).toEqual(['s3']);
  expect(await turn(['s3'])).toEqual([]);
  expect(await queue.getJobCounts('completed', 'failed', 'delayed')).toEqual({ completed: 4, failed: 1, delayed: 0 });
  expect(await redis.keys(`*${queue.name}*gate*`)).toEqual([]);
  expect((await queue.getJob('s1'))?.delay).toBe(0);
});

test('what stalls goes on in its order', async () => {
  for (let index = 0; index < 12; index++) await add(`s${index}`, index);
  expect(await turn()).toEqual(['s0']);
  await redis.del(worker.toKey('s0:lock'));
  expect(await scripts.putBackDead(worker, nowMs, 'co-b', '2')).toEqual(['s0']);
  const ran: string[] = [];
  for (let next = await turn(); next.length > 0; next = await turn(next)) ran.push(...next);
  expect(ran).toEqual(Array.from({ length: 12 }, (_, index) => `s${index}`));
});

test('a step whose turn does not come is let through after a while, by its deadline at the latest', async () => {
  await add('s0', 0);
  await turn();
  await add('s2', 2);
  await add('s3', 3, { more: { deadline_ms: 1_000 }, opts: { timestamp: nowMs } });
  expect(await turn(['s0'])).toEqual([]);
  nowMs += 1_001;
  expect(await turn()).toEqual(['s3']);
  nowMs += PARKED_MS_MAX;
  expect(await turn()).toEqual(['s2']);
});

test('a failure before its turn opens nothing, a success says that all before it are over', async () => {
  await add('s0', 0);
  await turn();
  await add('s2', 2);
  await add('s3', 3);
  expect(await turn()).toEqual([]);
  nowMs += PARKED_MS_MAX + 1;
  expect(await turn()).toEqual(['s2', 's3']);
  await add('s4', 4);
  expect(await turn(['s3'], 'failed')).toEqual([]);
  expect(await turn(['s2'])).toEqual([]);
  await add('s5', 5);
  await add('s3b', 3);
  expect(await turn()).toEqual(['s3b']);
  expect(await turn(['s3b'])).toEqual(['s4']);
});

test('a step that fails unrun, as BullMQ has it of one whose child has failed, passes its gate', async () => {
  await add('s0', 0);
  await turn();
  for (const index of [1, 2]) await add(`s${index}`, index);
  await redis.hset(worker.toKey('s1'), 'defa', 'child x failed');
  expect(await turn()).toEqual(['s1']);
  expect(await turn(['s0'])).toEqual([]);
  expect(await turn(['s1'], 'failed')).toEqual(['s2']);
});

test.each([
  ['failed before, in a stock worker', { attempts: 2 }, { atm: '1', stacktrace: '["x"]' }, 'INTERNAL: x'],
  [
    'a backoff that is not served',
    { attempts: 2, backoff: { type: 'own' } },
    {},
    "INTERNAL: x (not retried: backoff 'own' is not served)",
  ],
])('the end of a step with %s passes its gate', async (_what, opts, fields, reason) => {
  await add('s0', 0, { opts });
  await add('s1', 1);
  if (Object.keys(fields).length > 0) await redis.hset(worker.toKey('s0'), fields);
  const connector = connectRedis(server.url, { name: 'test' });
  const log = createLog({ level: 'silent' });
  const queues = createJobQueues({ connector, timing: timing(), clock: systemClock(), log });
  const taken: string[] = [];
  const taker = queues.take(queue.name.slice('infer.'.length), {
    by: 'co-a',
    token: () => TOKEN,
    room: () => 2 - taken.length,
    taken({ id }) {
      if (taken.push(id) === 1) void parked.then(() => taker.fail('s0', 'INTERNAL: x', true));
      return true;
    },
    lost: () => {},
  });
  const parked = expect.poll(() => queue.getDelayedCount()).toBe(1);
  try {
    await parked;
    // Sooner than it would be let through.
    await expect.poll(() => taken, { timeout: PARKED_MS_MAX / 2 }).toEqual(['s0', 's1']);
    expect(await queue.getJob('s0')).toMatchObject({ failedReason: reason, attemptsMade: 'atm' in fields ? 2 : 1 });
  } finally {
    await taker.close();
    await queues.close();
    connector.close();
  }
});

test('a cancelled step does not wait', async () => {
  await add('s0', 0);
  await turn();
  await add('s2', 2, { more: { cancelled: true } });
  expect(await turn()).toEqual(['s2']);
});

test.each([
  ['no number', { sequence_index: 'x', parameters: { sequence_id: 7 } }],
  ['no sequence', { sequence_index: 3, parameters: {} }],
  ['parameters that are none', { sequence_index: 3, parameters: [null] }],
  ['a number within a text', { note: '"sequence_index"', parameters: { sequence_id: 7 } }],
  ['a fraction', { sequence_index: 1.5, parameters: { sequence_id: 7 } }],
  ['nothing', null],
])('%s: goes to the owner, who says what is wrong', async (_, data) => {
  await add('s0', 0);
  await turn();
  await queue.add('x', data, { jobId: 'odd' });
  expect(await turn()).toEqual(['odd']);
});

test.each([
  ['a text', 'a:b|c'],
  ['a number', 9_007_199_254_740_991],
  ['a number beyond', { int64: '9007199254740993' }],
])('a sequence named by %s has its gate', async (_, sequence) => {
  await add('s0', 0, { sequence });
  await turn();
  await add('s2', 2, { sequence });
  await add('s1', 1, { sequence });
  expect(await turn(['s0'])).toEqual(['s1']);
  expect(await turn(['s1'])).toEqual(['s2']);
});
