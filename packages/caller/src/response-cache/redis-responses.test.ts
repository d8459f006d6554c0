import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, type RedisConnector } from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, describe, expect, it, test, vi } from 'vitest';
import type { KeptAnswer, ResponseStore } from './kept-answer.ts';
import { createRedisResponses, memoryIsTight } from './redis-responses.ts';

let redis: RedisServerFixture;
const opened: { readonly connector: RedisConnector; readonly store: ResponseStore }[] = [];

beforeAll(async () => {
  redis = await startRedisServer();
});
afterAll(async () => {
  await redis.stop();
});
afterEach(() => {
  for (const { connector, store } of opened.splice(0)) {
    store.close();
    connector.close();
  }
});

const answer = (bytes = 3): KeptAnswer => ({
  parameters: { p: 1n, q: 'é' },
  outputs: [
    { name: 'A', datatype: 'UINT8', shape: [bytes], data: new Uint8Array(bytes).fill(7) },
    { name: 'B', datatype: 'BYTES', shape: [0], data: new Uint8Array(0) },
  ],
});

/** A store as a process of its own has it, once it is connected; `ask` is a connection beside it. */
async function openStore({
  prefix = 'nereid',
  ttl_s = 60,
  entry = 5_000,
  insert = 1_000_000,
  answer_ms = 5_000,
  url = redis.url,
  log = createLog({ level: 'silent' }),
} = {}) {
  const connector = connectRedis(url, { name: 'test' });
  const clock = systemClock();
  const store = createRedisResponses({
    connector,
    prefix,
    clock,
    log,
    ttl_s,
    answer_ms,
    limits: { cache_entry_bytes_max: entry, cache_insert_bytes_max: insert },
  });
  opened.push({ connector, store });
  const { client, ready } = connector.connect('ask');
  await ready();
  // Dialled before; a promise says that it is asked for.
  await vi.waitFor(() => expect(store.find('none')).toBeInstanceOf(Promise));
  return { ...store, ask: (...command: readonly [string, ...string[]]) => client.call(...command) };
}

describe('answers in Redis', () => {
  test('are there for every process of the same prefix, under keys with a time to live', async () => {
    const [one, other, stranger] = [await openStore(), await openStore(), await openStore({ prefix: 'else' })];
    expect(await other.find('k')).toBeUndefined();
    await one.keep('k', answer());
    expect(await other.find('k')).toEqual(answer());
    expect(await stranger.find('k')).toBeUndefined();
    expect(Number(await one.ask('PTTL', 'nereid:cache:{k}'))).toBeGreaterThan(50_000);
  });

  test('are not kept where one is larger than an entry may be, or too much is on its way', async () => {
    const large = await openStore();
    expect(large.keep('large', answer(20_000))).toBeUndefined();
    const busy = await openStore({ insert: 1_500 });
    const keeping = ['a', 'b', 'c', 'd'].map((key) => busy.keep(key, answer(10)));
    expect([keeping[0], keeping[3]]).toEqual([expect.any(Promise), undefined]);
    await Promise.all(keeping);
    expect(await busy.find('a')).toEqual(answer(10));
  });

  test.each([
    ['no frame', 'hello'],
    ['a frame of another version', 'Nr\u0063\u0006\u0000\u0000\u0000\u0000'],
    ['nothing at all', ''],
  ])('%s in the place of one is a miss, which the next answer replaces', async (_what, value) => {
    const { find, keep, ask } = await openStore();
    await ask('SET', 'nereid:cache:{odd}', value);
    expect(await find('odd')).toBeUndefined();
    await keep('odd', answer());
    expect(await find('odd')).toEqual(answer());
  });

  test('a Redis that is slow is waited for once, then not for a while; one that is gone not at all', async () => {
    const { find, keep } = await openStore({ answer_ms: 20 });
    process.kill(redis.pid, 'SIGSTOP');
    try {
      expect(await find('k')).toBeUndefined();
      expect([find('k'), keep('k', answer())]).toEqual([undefined, undefined]);
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await vi.waitFor(() => expect(find('k')).toBeInstanceOf(Promise), { timeout: 5_000 });
    await redis.kill('SIGKILL');
    await vi.waitFor(() => expect(find('k')).toBeUndefined());
    await redis.start();
    await vi.waitFor(() => expect(find('k')).toBeInstanceOf(Promise), { timeout: 10_000 });
  });

  test('a Redis that is nearly full gets no more, for what else is in it', async () => {
    const { find, keep, ask } = await openStore();
    await ask('CONFIG', 'SET', 'maxmemory', '1000');
    await keep('full', answer());
    await ask('CONFIG', 'SET', 'maxmemory', '0');
    expect(await find('full')).toBeUndefined();
    expect(keep('full', answer())).toBeUndefined();
  });

  test.each([
    ['INFO: they are kept', '-info', answer(), 0],
    ['SET: they are not, which is said once', '-set', undefined, 1],
  ])('a Redis that hides %s', async (_what, rule, kept, warnings) => {
    const { ask } = await openStore();
    await ask('ACL', 'SETUSER', 'limited', 'reset', 'on', '>secret', '~*', '+@all', rule);
    const log = createLog({ level: 'silent' });
    const warn = vi.spyOn(log, 'warn');
    const { find, keep } = await openStore({ url: `unix://limited:secret@${redis.socket}`, log });
    await keep(rule, answer());
    await keep(rule, answer());
    expect(await find(rule)).toEqual(kept);
    expect(warn).toHaveBeenCalledTimes(warnings);
  });
});

const info = (used: number, most: number, policy: string) =>
  `# Memory\r\nused_memory:${used}\r\nmaxmemory:${most}\r\nmaxmemory_policy:${policy}\r\n`;

it.each([
  ['under its bound', info(79, 100, 'noeviction'), false],
  ['near it', info(81, 100, 'noeviction'), true],
  ['one that evicts', info(99, 100, 'allkeys-lru'), false],
  ['without a bound', info(99, 0, 'noeviction'), false],
  ['that does not tell', '', false],
])('whether a Redis is nearly full: %s', (_what, text, expected) => {
  expect(memoryIsTight(text)).toBe(expected);
});
