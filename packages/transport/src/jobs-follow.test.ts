import { createLog, systemClock } from '@nereid/runtime';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JobNews, JobQueues, JobTaker, NewJob } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const log = createLog({ level: 'silent' });
let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];
let models = 0;
let model: string;
let queues: JobQueues;
let redis: Redis;
let left: AbortController;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  models++;
  model = `m${models}`;
  const clock = systemClock();
  const connector = connectRedis(server.url, { name: 'gateway:1' });
  queues = createJobQueues({ connector, timing: timing(0.2), clock, log });
  redis = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  left = new AbortController();
  cleanups.push(async () => {
    left.abort();
    await queues.close();
    connector.close();
    redis.disconnect();
    expect({ waiters: queues.waiters, timers: clock.liveTimers }).toEqual({ waiters: 0, timers: 0 });
  });
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

const add = (id: string, more: Partial<NewJob> = {}) =>
  queues.add(model, {
    id,
    createdMs: Date.now(),
    data: {},
    priority: 0,
    delayMs: 0,
    attempts: 1,
    resultTtlS: 60,
    ...more,
  });

/** Takes jobs; gives each one's id once it is here. */
function take(): { readonly taker: JobTaker; arrived(id: string): Promise<void> } {
  const taken: string[] = [];
  const taker = queues.take(model, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken: ({ id }) => taken.push(id) > 0,
    lost: () => {},
  });
  cleanups.push(() => taker.close());
  return {
    taker,
    arrived: async (id) => {
      await expect.poll(() => taken.includes(id)).toBe(true);
      taken.splice(taken.indexOf(id), 1);
    },
  };
}

/** One word for each. */
function word(news: JobNews): string {
  switch (news.kind) {
    case 'state':
      return news.state;
    case 'progress':
      return JSON.stringify(news.progress);
    case 'end':
      return `end ${news.job?.state ?? `gone ${news.state}`}`;
    case 'present':
      return `present ${news.job.state}`;
    default:
      return news.kind;
  }
}

const eventOf = (news: JobNews | undefined) => (news !== undefined && 'event' in news ? news.event : undefined);

/** Reads until told enough, or to the end. */
async function read(id: string, after?: string, until: (told: readonly JobNews[]) => boolean = () => false) {
  const told: JobNews[] = [];
  for await (const news of queues.follow(model, id, after, left.signal)) {
    told.push(news);
    if (until(told)) break;
  }
  return told;
}

const quiet = (told: readonly JobNews[]) => told.at(-1)?.kind === 'quiet';

/** A job that has been through everything. */
async function finished(id: string) {
  const { taker, arrived } = take();
  await add(id);
  await arrived(id);
  for (let n = 1; n <= 3; n++) taker.progress(id, { n }, 8);
  await taker.complete(id, 'done');
  return taker;
}

const WHOLE = ['waiting', 'running', '{"n":1}', '{"n":2}', '{"n":3}', 'end completed'];

describe('a job is followed', () => {
  test('from its beginning, also when it is over', async () => {
    await add('other');
    await finished('A');
    expect((await read('A')).map(word)).toEqual(WHOLE);
  });

  test('while it runs', async () => {
    const { taker, arrived } = take();
    const following = read('A');
    await expect(following).resolves.toEqual([{ kind: 'unknown' }]);
    await add('A', { delayMs: 300 });
    const news = read('A');
    await arrived('A');
    taker.progress('A', 1, 1);
    taker.progress('A', { n: 2 }, 1);
    await taker.complete('A', {});
    const words = (await news).map(word).filter((each) => each !== 'quiet');
    expect(words).toEqual(['delayed', 'waiting', 'running', '1', '{"n":2}', 'end completed']);
  });

  test('costs no connection where it is not there', async () => {
    await add('A');
    const connections = async () =>
      String(await redis.client('LIST'))
        .trim()
        .split('\n').length;
    const before = await connections();
    expect((await read('nobody', '1-0')).map(word)).toEqual(['unknown']);
    expect(await connections()).toBe(before);
  });

  test('on from each of its events, each once', async () => {
    await finished('A');
    const all = await read('A');
    for (const [index, each] of all.entries()) {
      const rest = await read('A', eventOf(each));
      expect(rest.map(word)).toEqual(WHOLE.slice(index + 1));
    }
  });

  test('by another process, after the first has gone', async () => {
    const { taker, arrived } = take();
    await add('A');
    await arrived('A');
    taker.progress('A', { n: 1 }, 1);
    const told = await read('A', undefined, (so) => so.some(({ kind }) => kind === 'progress'));
    taker.progress('A', { n: 2 }, 1);
    await taker.fail('A', 'INTERNAL: x', false);
    const connector = connectRedis(server.url, { name: 'gateway:2' });
    const other = createJobQueues({ connector, timing: timing(0.2), clock: systemClock(), log });
    cleanups.push(
      () => connector.close(),
      () => other.close(),
    );
    const rest: string[] = [];
    for await (const news of other.follow(model, 'A', eventOf(told.at(-1)), left.signal)) rest.push(word(news));
    expect(rest).toEqual(['{"n":2}', 'end failed']);
  });

  test('through a retry: only the last end is one', async () => {
    const { taker, arrived } = take();
    await add('A');
    await arrived('A');
    await taker.fail('A', 'INTERNAL: x', false);
    const queue = new Queue(queues.queue(model).name, { connection: redis });
    cleanups.push(() => queue.close());
    await (await queue.getJob('A'))?.retry('failed');
    await arrived('A');
    await taker.complete('A', {});
    expect((await read('A')).map(word)).toEqual(['waiting', 'running', 'waiting', 'running', 'end completed']);
  });

  test('until it is removed', async () => {
    await add('A');
    const told = await read('A', undefined, quiet);
    expect(told.map(word)).toEqual(['waiting', 'quiet']);
    const rest = read('A', eventOf(told[0]));
    const queue = new Queue(queues.queue(model).name, { connection: redis });
    cleanups.push(() => queue.close());
    await queue.remove('A');
    expect((await rest).map(word).filter((each) => each !== 'quiet')).toEqual(['end gone undefined']);
  });

  test('which is deleted with its end: as its event says', async () => {
    const { taker, arrived } = take();
    const queue = new Queue(queues.queue(model).name, { connection: redis });
    cleanups.push(() => queue.close());
    await queue.add('x', {}, { jobId: 'A', removeOnComplete: true });
    await arrived('A');
    const told = await read('A', undefined, quiet);
    const rest = read('A', eventOf(told.at(-2)));
    await expect.poll(() => queues.waiters).toBe(1);
    await taker.complete('A', {});
    expect((await rest).map(word).filter((each) => each !== 'quiet')).toEqual(['end gone completed']);
  });
});

describe('where events are gone', () => {
  const events = () => `bull:infer.${model}:events`;

  test('the job is told as it is, then what is left', async () => {
    const { taker, arrived } = take();
    await add('A');
    await arrived('A');
    for (let n = 1; n <= 3; n++) taker.progress('A', { n }, 8);
    await expect.poll(async () => (await queues.find(model, 'A'))?.progress).toEqual({ n: 3 });
    const told = await read('A', undefined, quiet);
    await redis.xtrim(events(), 'MAXLEN', 1);
    expect((await read('A', undefined, quiet)).map(word)).toEqual(['present running', '{"n":3}', 'quiet']);
    expect((await read('A', eventOf(told[0]), quiet)).map(word)).toEqual(['present running', '{"n":3}', 'quiet']);
    expect((await read('A', eventOf(told.at(-2)), quiet)).map(word)).toEqual(['quiet']);
  });

  test('its end is told all the same, and then no more', async () => {
    const taker = await finished('A');
    await redis.xtrim(events(), 'MAXLEN', 0);
    const told = await read('A');
    expect(told.map(word)).toEqual(['present completed', 'end completed']);
    await add('B');
    await expect.poll(() => taker.held).toBe(1);
    const again = await read('A');
    expect(again.map(word)).toEqual(['present completed', 'end completed']);
    expect(await read('A', eventOf(again.at(-1)))).toEqual([]);
    await taker.complete('B', {});
  });
});

test('a follower goes on by itself when its connections break', async () => {
  const { taker, arrived } = take();
  await add('A');
  await arrived('A');
  const news = read('A');
  const admin = new Redis({ path: server.socket });
  cleanups.push(() => admin.disconnect());
  const listening = async () => /cmd=xread/.test(String(await admin.client('LIST')));
  await expect.poll(listening).toBe(true);
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  taker.progress('A', { n: 1 }, 1);
  await taker.complete('A', 'late');
  expect((await news).map(word).filter((each) => each !== 'quiet')).toEqual([
    'waiting',
    'running',
    '{"n":1}',
    'end completed',
  ]);
});

test('a thousand other events between two of a job are passed over', async () => {
  const { taker, arrived } = take();
  await add('A');
  await add('B');
  await arrived('A');
  await arrived('B');
  for (let n = 1; n <= 1_200; n++) taker.progress('B', n, 1);
  await taker.complete('B', {});
  taker.progress('A', 'x', 1);
  await taker.complete('A', {});
  expect((await read('A')).map(word)).toEqual(['waiting', 'running', '"x"', 'end completed']);
});
