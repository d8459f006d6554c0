import { createLog, systemClock } from '@nereid/runtime';
import { FlowProducer, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JobQueues, JobTaker, NewJob, TakenJob } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import type { Sent, ServeDeliveries } from './jobs-delivery-taker.ts';
import { isBuried } from './jobs-letters.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const URL_1 = 'http://a.example/hook';
const JOB: NewJob = {
  id: 'A1',
  createdMs: Date.now(),
  data: { inputs: [{ name: 'X' }], webhook: URL_1 },
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
let queues: JobQueues;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  models++;
  model = `m${models}`;
  queues = openQueues();
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

function openQueues(): JobQueues {
  const clock = systemClock();
  const connector = connectRedis(server.url, { name: 'test' });
  const opened = createJobQueues({ connector, timing: timing(), clock, log });
  cleanups.push(async () => {
    await opened.close();
    connector.close();
    expect(clock.liveTimers).toBe(0);
  });
  return opened;
}

/** A producer's own queue. */
function plainQueue(name: string): Queue {
  const redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  const queue = new Queue(name, { connection: redis });
  cleanups.push(async () => {
    await queue.close();
    redis.disconnect();
  });
  return queue;
}

/** Ends each job as it comes. */
function take(end: (taker: JobTaker, job: TakenJob) => Promise<void>): JobTaker {
  const taker: JobTaker = queues.take(model, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken(job) {
      void end(taker, job);
      return true;
    },
    lost: () => {},
  });
  cleanups.push(() => taker.close());
  return taker;
}

describe('which failures become dead letters', () => {
  test.each<[string, string, boolean]>([
    ['INTERNAL', 'the model threw', true],
    ['UNKNOWN', 'x', true],
    ['POISONED', 'the request is refused', true],
    ['UNAVAILABLE', 'the instance that ran the request was lost twice; try again later', true],
    ['UNAVAILABLE', '[request id: a] Request timeout expired', false],
    ['INVALID_ARG', 'x', false],
    ['NOT_FOUND', 'x', false],
    ['UNSUPPORTED', 'x', false],
    ['ALREADY_EXISTS', 'x', false],
    ['CANCELLED', 'x', false],
  ])('%s: %s is %s', (code, message, isDead) => {
    expect(isBuried({ code: code as 'INTERNAL', message })).toBe(isDead);
  });
});

describe('a job that exhausts its attempts', () => {
  test('is a dead letter before it is failed, with input, reason and history', async () => {
    await queues.add(model, { ...JOB, data: { inputs: [1] }, attempts: 2 });
    await plainQueue(`infer.${model}`).getJob('A1');
    let run = 0;
    let seen: unknown;
    take(async (taker, { id }) => {
      run++;
      await taker.fail(id, `INTERNAL: run ${run}`, true, JSON.stringify({ run }));
      if (run === 1) seen = await queues.letters.find(model, id);
    });
    expect(await queues.wait(model, 'A1', 20_000)).toMatchObject({ state: 'failed' });
    expect(seen).toBeUndefined();
    const letter = await queues.letters.find(model, 'A1');
    expect(letter).toEqual({
      model,
      id: 'A1',
      reason: 'INTERNAL: run 2',
      createdMs: JOB.createdMs,
      diedMs: expect.any(Number),
      attemptsMade: 2,
      data: { inputs: [1] },
      history: [{ run: 2 }, { run: 1 }],
    });
    expect(await queues.letters.list(model, undefined, 10)).toEqual([letter]);
    expect(await queues.letters.list(model, 'A1', 10)).toEqual([]);
  });

  test('runs again with other data, under its id and as a new one', async () => {
    await queues.add(model, { ...JOB, createdMs: 1, data: { inputs: [1] } });
    take(async (taker, { id, data }) => {
      if (JSON.stringify(data) === '{"inputs":[2]}') await taker.complete(id, 'well');
      else await taker.fail(id, 'INTERNAL: x', true);
    });
    await queues.wait(model, 'A1', 20_000);
    expect(await queues.letters.replay(model, 'A1')).toBe('replayed');
    await expect.poll(() => queues.letters.find(model, 'A1')).toMatchObject({ attemptsMade: 1 });
    expect(await queues.letters.replay(model, 'A1', { inputs: [2] })).toBe('replayed');
    const job = await queues.wait(model, 'A1', 20_000);
    expect(job).toMatchObject({ state: 'completed', result: 'well', attemptsMade: 1, attemptsMax: 1 });
    // A deadline counts from its second beginning.
    expect(job?.createdMs).toBeGreaterThan(JOB.createdMs - 1);
    expect(await queues.letters.find(model, 'A1')).toBeUndefined();
    expect(await queues.letters.replay(model, 'A1')).toBeUndefined();
  });

  test('runs again where its job is gone, and is left where it is completed', async () => {
    await queues.add(model, { ...JOB, data: {} });
    let fails = true;
    take((taker, { id }) => (fails ? taker.fail(id, 'INTERNAL: x', true) : taker.complete(id, 1)));
    await queues.wait(model, 'A1', 20_000);
    const producer = plainQueue(`infer.${model}`);
    await (await producer.getJob('A1'))?.remove();
    fails = false;
    const letter = (await plainQueue(`dead.${model}`).getJob('A1'))?.data;
    expect(await queues.letters.replay(model, 'A1')).toBe('replayed');
    expect(await queues.wait(model, 'A1', 20_000)).toMatchObject({ state: 'completed' });
    await plainQueue(`dead.${model}`).add('letter', letter, { jobId: 'A1' });
    expect(await queues.letters.replay(model, 'A1')).toBe('completed');
    expect(await queues.letters.remove(model, 'A1')).toBe(true);
    expect(await queues.letters.remove(model, 'A1')).toBe(false);
  });

  test.each<[how: string, again: (producer: Queue) => Promise<unknown>]>([
    ['by a client', () => queues.changes.retry(model, 'A1')],
    ["by BullMQ's retry", async (producer) => (await producer.getJob('A1'))?.retry('failed')],
    ['by a replay', () => queues.letters.replay(model, 'A1')],
  ])('is no dead letter once it runs again %s; the next one tells of all its deaths', async (_how, again) => {
    await queues.add(model, { ...JOB, data: { inputs: [] } });
    const producer = plainQueue(`infer.${model}`);
    let run = 0;
    let goesOn = () => {};
    take(async (taker, { id }) => {
      run++;
      const note = JSON.stringify({ run });
      if (run === 2) await new Promise<void>((resolve) => (goesOn = resolve));
      await taker.fail(id, `INTERNAL: run ${run}`, true, note);
    });
    await queues.wait(model, 'A1', 20_000);
    expect(await queues.letters.find(model, 'A1')).toMatchObject({ reason: 'INTERNAL: run 1' });
    await again(producer);
    await expect.poll(() => run).toBe(2);
    await expect.poll(() => queues.letters.find(model, 'A1')).toBeUndefined();
    goesOn();
    await queues.wait(model, 'A1', 20_000);
    expect(await queues.letters.find(model, 'A1')).toMatchObject({
      reason: 'INTERNAL: run 2',
      history: [{ run: 2 }, { run: 1 }],
    });
  });

  test('may have a number that BullMQ gave it, and runs again under that while it is there', async () => {
    let fails = true;
    take((taker, { id }) => (fails ? taker.fail(id, 'INTERNAL: x', true) : taker.complete(id, 1)));
    const producer = plainQueue(`infer.${model}`);
    const [first = '', second = ''] = (await producer.addBulk([1, 2].map((data) => ({ name: 'x', data })))).map(
      ({ id }) => id,
    );
    for (const id of [first, second]) {
      await queues.wait(model, id, 20_000);
      expect(await queues.letters.find(model, id)).toMatchObject({ id, data: Number(id) });
    }
    expect((await queues.letters.list(model, first, 10)).map(({ id }) => id)).toEqual([second]);
    fails = false;
    expect(await queues.letters.replay(model, first, 3)).toBe('replayed');
    expect(await queues.wait(model, first, 20_000)).toMatchObject({ state: 'completed', data: 3 });
    await (await producer.getJob(second))?.remove();
    expect(await queues.letters.replay(model, second)).toBe('replayed');
    expect(await queues.wait(model, '3', 20_000)).toMatchObject({ state: 'completed', data: 2 });
    expect(await queues.letters.list(model, undefined, 10)).toEqual([]);
  });

  test('is none for a mistake of its client', async () => {
    await queues.add(model, { ...JOB, data: {} });
    take((taker, { id }) => taker.fail(id, 'INVALID_ARG: x', false));
    await queues.wait(model, 'A1', 20_000);
    expect(await queues.letters.list(model, undefined, 10)).toEqual([]);
  });

  test('takes the place of the oldest where there are too many', async () => {
    const dead = plainQueue(`dead.${model}`);
    await dead.addBulk(
      Array.from({ length: 1_001 }, (_, n) => ({ name: 'letter', data: {}, opts: { jobId: `L${n}` } })),
    );
    await queues.add(model, { ...JOB, data: {} });
    take((taker, { id }) => taker.fail(id, 'INTERNAL: x', true));
    await queues.wait(model, 'A1', 20_000);
    expect(await dead.getWaitingCount()).toBe(1_000);
    expect((await dead.getRanges(['waiting'], 0, 0, true))[0]).toBe('L2');
    expect(await queues.letters.find(model, 'A1')).toMatchObject({ reason: 'INTERNAL: x' });
  });
});

interface Serving {
  readonly sent: { readonly url: string; readonly id: string; readonly body: string }[];
  /** Tells how the next sendings end; the last is repeated. */
  readonly outcomes: Sent[];
}

function serve(more: Partial<ServeDeliveries> = {}): Serving {
  const serving: Serving = { sent: [], outcomes: [{ ok: true }] };
  const taker = queues.deliveries.serve({
    models: () => [model],
    async compose(of, id, ended) {
      const job = await queues.find(of, id);
      if (job === undefined) return { id, body: JSON.stringify({ gone: ended.state }) };
      return job.finishedMs === undefined ? undefined : { id, body: JSON.stringify({ state: job.state }) };
    },
    async send(url, { id, body }) {
      serving.sent.push({ url, id, body });
      return (serving.outcomes.length > 1 ? serving.outcomes.shift() : serving.outcomes[0]) as Sent;
    },
    ...more,
  });
  cleanups.push(() => taker.close(5_000));
  return serving;
}

test('the parent of a flow that failed with its child has a dead letter and a webhook', async () => {
  const redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  const flows = new FlowProducer({ connection: redis });
  cleanups.push(async () => {
    await flows.close();
    redis.disconnect();
  });
  const queueName = `infer.${model}`;
  const child = { name: 'c', queueName, data: {}, opts: { jobId: 'child', failParentOnFailure: true } };
  await flows.add({ name: 'p', queueName, data: JOB.data, opts: { jobId: 'parent' }, children: [child] });
  // As the intake does.
  take((taker, { id, deferredFailure = 'INVALID_ARG: x' }) => taker.fail(id, deferredFailure, false));
  expect(await queues.wait(model, 'parent', 20_000)).toMatchObject({ state: 'failed' });
  expect(await queues.letters.find(model, 'parent')).toMatchObject({ reason: expect.stringContaining('child') });
  expect(await queues.deliveries.find(model, 'parent')).toMatchObject({ url: URL_1 });
});

describe('the webhook of a job', () => {
  test('is sent once the job is over, not before', async () => {
    await queues.add(model, JOB);
    const { sent } = serve();
    take((taker, { id }) => taker.complete(id, 1));
    await expect
      .poll(() => sent, { timeout: 10_000 })
      .toEqual([{ url: URL_1, id: 'A1', body: '{"state":"completed"}' }]);
    await expect.poll(() => queues.deliveries.find(model, 'A1')).toMatchObject({ state: 'delivered', attemptsMade: 1 });
  });

  test('is not sent while the job goes on, and then once', async () => {
    await queues.add(model, JOB);
    // As an owner that died between the two leaves it.
    const ended = { ...JOB, model, state: 'completed' } as never;
    await queues.deliveries.add(model, 'A1', { url: URL_1, ended });
    const looks: string[] = [];
    const { sent } = serve({
      async compose(of, id) {
        const job = await queues.find(of, id);
        looks.push(job?.state ?? '');
        return job?.state === 'completed' ? { id, body: job.state } : undefined;
      },
    });
    await expect.poll(() => looks.length, { timeout: 10_000 }).toBeGreaterThan(1);
    expect(sent).toEqual([]);
    take((taker, { id }) => taker.complete(id, 1));
    await expect.poll(() => sent, { timeout: 10_000 }).toEqual([{ url: URL_1, id: 'A1', body: 'completed' }]);
    expect((await plainQueue(`hooks.${model}`).getJob('A1'))?.attemptsMade).toBe(1);
  });

  test('is sent of a job that its producer does not keep', async () => {
    await plainQueue(`infer.${model}`).add('x', JOB.data, { jobId: 'A1', removeOnComplete: true });
    const { sent } = serve();
    take((taker, { id }) => taker.complete(id, 1));
    await expect.poll(() => sent, { timeout: 10_000 }).toMatchObject([{ body: '{"gone":"completed"}' }]);
  });

  test('is sent of a job with a number that BullMQ gave it', async () => {
    const { id } = await plainQueue(`infer.${model}`).add('x', JOB.data);
    const { sent } = serve();
    take((taker, job) => taker.complete(job.id, 1));
    await expect.poll(() => sent, { timeout: 10_000 }).toEqual([{ url: URL_1, id, body: '{"state":"completed"}' }]);
  });

  test('is tried again and says the same; sent by hand it is sent at once', async () => {
    await queues.add(model, JOB);
    const { sent, outcomes } = serve();
    outcomes.unshift({ ok: false, reason: 'answered 500', final: false });
    take((taker, { id }) => taker.fail(id, 'INTERNAL: x', false));
    await expect
      .poll(() => queues.deliveries.find(model, 'A1'), { timeout: 10_000 })
      .toMatchObject({ state: 'waiting', attemptsMade: 1, error: 'answered 500' });
    await (await plainQueue(`infer.${model}`).getJob('A1'))?.remove();
    expect(await queues.deliveries.resend(model, 'A1')).toBe(true);
    await expect.poll(() => sent.map(({ body }) => body)).toEqual(['{"state":"failed"}', '{"state":"failed"}']);
  });

  test('that is sent by hand between two attempts has all its attempts again', async () => {
    await queues.add(model, JOB);
    const { outcomes } = serve();
    outcomes.unshift({ ok: false, reason: 'answered 500', final: false });
    take((taker, { id }) => taker.complete(id, 1));
    const found = () => queues.deliveries.find(model, 'A1');
    await expect.poll(found, { timeout: 10_000 }).toMatchObject({ state: 'waiting', attemptsMade: 1 });
    expect(await queues.deliveries.resend(model, 'A1')).toBe(true);
    await expect.poll(found).toMatchObject({ state: 'delivered', attemptsMade: 1, error: undefined });
  });

  test('stays undelivered where it cannot be, until it is sent by hand', async () => {
    await queues.add(model, JOB);
    const { sent, outcomes } = serve();
    outcomes[0] = { ok: false, reason: 'gone', final: true };
    take((taker, { id }) => taker.complete(id, 1));
    await expect
      .poll(() => queues.deliveries.find(model, 'A1'), { timeout: 10_000 })
      .toMatchObject({ state: 'undelivered', attemptsMade: 1, attemptsMax: 12, error: 'gone' });
    outcomes[0] = { ok: true };
    expect(await queues.deliveries.resend(model, 'A1')).toBe(true);
    await expect.poll(() => queues.deliveries.find(model, 'A1')).toMatchObject({ state: 'delivered' });
    expect(sent.length).toBe(2);
    expect(await queues.deliveries.resend(model, 'none')).toBe(false);
  });

  test('tells the end of a job that ended a second time', async () => {
    await queues.add(model, JOB);
    const { sent } = serve();
    let fails = true;
    take((taker, { id }) => (fails ? taker.fail(id, 'INVALID_ARG: x', false) : taker.complete(id, 1)));
    await expect.poll(() => sent.length, { timeout: 10_000 }).toBe(1);
    fails = false;
    await expect.poll(() => queues.deliveries.find(model, 'A1')).toMatchObject({ state: 'delivered' });
    await (await plainQueue(`infer.${model}`).getJob('A1'))?.retry('failed');
    await expect
      .poll(() => sent.map(({ body }) => body), { timeout: 10_000 })
      .toEqual(['{"state":"failed"}', '{"state":"completed"}']);
  });

  const BOTH_ENDS = ['{"state":"failed"}', '{"state":"completed"}'];
  const endTwice = async (between: () => Promise<unknown>) => {
    await queues.add(model, JOB);
    let fails = true;
    take((taker, { id }) => (fails ? taker.fail(id, 'INVALID_ARG: x', false) : taker.complete(id, 1)));
    await between();
    fails = false;
    await (await plainQueue(`infer.${model}`).getJob('A1'))?.retry('failed');
    expect(await queues.wait(model, 'A1', 20_000)).toMatchObject({ state: 'completed' });
  };

  test('tells a second end instead of a first one that is still to be tried again', async () => {
    const { sent, outcomes } = serve();
    outcomes.unshift({ ok: false, reason: 'answered 500', final: false });
    await endTwice(() =>
      expect
        .poll(() => queues.deliveries.find(model, 'A1'), { timeout: 10_000 })
        .toMatchObject({ state: 'waiting', attemptsMade: 1 }),
    );
    await expect.poll(() => sent.map(({ body }) => body), { timeout: 4_000 }).toEqual(BOTH_ENDS);
  });

  test.each([
    ['delivered', { ok: true }],
    ['undelivered', { ok: false, reason: 'answered 410', final: true }],
  ] as const)('tells a second end after a first one that was being sent, and is %s', async (_how, outcome) => {
    const bodies: string[] = [];
    let answer = (_sent: Sent) => {};
    serve({
      send(_url, { body }) {
        bodies.push(body);
        return bodies.length > 1 ? Promise.resolve({ ok: true }) : new Promise((resolve) => (answer = resolve));
      },
    });
    await endTwice(() => expect.poll(() => bodies.length, { timeout: 10_000 }).toBe(1));
    answer(outcome);
    await expect.poll(() => bodies, { timeout: 4_000 }).toEqual(BOTH_ENDS);
    await expect.poll(() => queues.deliveries.find(model, 'A1')).toMatchObject({ state: 'delivered' });
  });
});
