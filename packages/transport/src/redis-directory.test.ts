import { createLog, systemClock } from '@nereid/runtime';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { DirectoryChange } from './directory.ts';
import { directoryContract } from './directory-contract.ts';
import { connectRedis, type RedisConnector } from './redis-connection.ts';
import { createRedisDirectory, type RedisDirectory } from './redis-directory.ts';
import { redisKeys } from './redis-keys.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

interface Held {
  readonly text: string;
}

/** For tests that wait for an expiry: a lease of 400 ms. */
const SHORT = timing(0.2);
/** For all others, so that no stall of the machine makes anything expire: 20 s, yet a quick heartbeat. */
const LONG = { ...timing(10), heartbeat_ms: 100 };
const WORKER = { id: 'wk-1', role: 'worker', draining: false } as const;

const log = createLog({ level: 'silent' });
const closing: (() => Promise<void>)[] = [];
let redis: RedisServerFixture;
let prefixes = 0;

beforeAll(async () => {
  redis = await startRedisServer();
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => redis.stop());

const newPrefix = () => `test${prefixes++}`;

/** One process's directory, started; closed after the test. */
async function openDirectory(prefix: string, times = LONG) {
  const clock = systemClock();
  const connector = connectRedis(redis.url, { name: 'test' });
  const directory = createRedisDirectory<Held>({
    connector,
    prefix,
    log,
    clock,
    timing: times,
    encode: (record) => JSON.stringify(record),
    decode: (text) => JSON.parse(text) as Held,
  });
  const changes: DirectoryChange[] = [];
  directory.watch((change) => changes.push(change));
  const close = async () => {
    await directory.close();
    connector.close();
  };
  closing.push(close);
  await directory.start();
  return { directory, clock, connector, changes, close };
}

/** Commands from outside the directory. */
async function withClient<T>(run: (client: ReturnType<RedisConnector['connect']>['client']) => Promise<T>): Promise<T> {
  const connector = connectRedis(redis.url, { name: 'test' });
  try {
    const connection = connector.connect('outside');
    await connection.ready();
    return await run(connection.client);
  } finally {
    connector.close();
  }
}

const workers = (directory: RedisDirectory<Held>) => directory.processes('worker').map(({ id }) => id);

directoryContract('redis', async () => (await openDirectory(newPrefix())).directory);

describe('two processes', () => {
  test('hear of each other by notices, well before a heartbeat', async () => {
    const slow = timing(3_600);
    const prefix = newPrefix();
    const a = await openDirectory(prefix, slow);
    const b = await openDirectory(prefix, slow);
    await a.directory.register(WORKER);
    const epoch = await a.directory.acquire('m', 'co-1');
    await a.directory.publish('m', { text: 'one' });
    await vi.waitFor(() => expect(b.directory.record('m')).toEqual({ text: 'one' }));
    expect(workers(b.directory)).toEqual(['wk-1']);
    expect(b.directory.owner('m')).toEqual(epoch);
    expect(await b.directory.acquire('m', 'co-2')).toBeUndefined();
    await a.directory.setValue('settings', 'loud');
    await vi.waitFor(() => expect(b.directory.value('settings')).toEqual({ text: 'loud', version: 1 }));
    expect(b.changes).toContainEqual({ type: 'value', name: 'settings' });
    await a.directory.leave('wk-1');
    await a.directory.withdraw('m');
    await a.directory.release('m', 'co-1');
    await vi.waitFor(() => expect(b.directory.owner('m')).toBeUndefined());
    expect(workers(b.directory)).toEqual([]);
    expect(b.directory.records()).toEqual([]);
  });

  test('hear of each other by heartbeats alone where no notice comes', async () => {
    const prefix = newPrefix();
    const a = await openDirectory(prefix);
    const b = await openDirectory(prefix);
    const channel = redisKeys(prefix).directoryChanges('all');
    await withClient((client) => client.call('CLIENT', ['KILL', 'TYPE', 'pubsub']));
    // Nobody listens before the reconnect, and these notices are lost.
    await a.directory.register(WORKER);
    await a.directory.publish('m', { text: 'one' });
    await vi.waitFor(() => expect(b.directory.record('m')).toEqual({ text: 'one' }));
    expect(workers(b.directory)).toEqual(['wk-1']);
    // And it subscribes again.
    await vi.waitFor(async () =>
      expect(await withClient((client) => client.call('PUBSUB', ['NUMSUB', channel]))).toEqual([channel, 2]),
    );
  });

  test('a record of a model that another owns is neither overwritten nor withdrawn', async () => {
    const prefix = newPrefix();
    const a = await openDirectory(prefix);
    const b = await openDirectory(prefix);
    await a.directory.acquire('m', 'co-1');
    await a.directory.publish('m', { text: 'of the owner' });
    await b.directory.publish('m', { text: 'of a former owner' });
    await b.directory.withdraw('m');
    expect(b.directory.record('m')).toEqual({ text: 'of the owner' });
  });

  test('a record that cannot be read is left out, and the others are not', async () => {
    const prefix = newPrefix();
    const a = await openDirectory(prefix);
    await withClient((client) => client.hset(redisKeys(prefix).directoryRecords('all'), 'bad', '{'));
    await withClient((client) => client.hset(redisKeys(prefix).directoryRecordVersions('all'), 'bad', 99));
    await a.directory.publish('m', { text: 'one' });
    expect(a.directory.records()).toEqual([{ text: 'one' }]);
  });
});

describe('a process that ends without a word', () => {
  test('its registrations and leases run out, and others see and take them', async () => {
    const prefix = newPrefix();
    const a = await openDirectory(prefix, SHORT);
    const b = await openDirectory(prefix, SHORT);
    await a.directory.register(WORKER);
    await a.directory.register({ id: 'gw-1', role: 'gateway', draining: false });
    const epoch = await a.directory.acquire('m', 'co-1');
    expect(await b.directory.acquire('m', 'co-2')).toBeUndefined();
    await a.close();
    const next = await vi.waitUntil(() => b.directory.acquire('m', 'co-2'), { timeout: 10_000 });
    // By its own clock, the first owner knew it before.
    expect(a.directory.holds('m', 'co-1')).toBe(false);
    expect(next?.number).toBeGreaterThan(epoch?.number ?? 0);
    await vi.waitFor(() => expect(workers(b.directory)).toEqual([]), { timeout: 10_000 });
    expect(a.directory.registered('wk-1')).toBe(false);
    await vi.waitFor(() => expect(b.directory.processes('gateway')).toEqual([]), { timeout: 10_000 });
    expect(b.changes).toContainEqual({ type: 'process', id: 'wk-1' });
    expect(b.changes).toContainEqual({ type: 'owner', model: 'm' });
  });

  test('a registration that lapsed in Redis comes back by a new call only, a gateway’s by itself', async () => {
    const prefix = newPrefix();
    const { directory, changes } = await openDirectory(prefix);
    await directory.register(WORKER);
    await directory.register({ id: 'gw-1', role: 'gateway', draining: false });
    const keys = redisKeys(prefix);
    await withClient((client) => client.zadd(keys.directoryProcessesUntil('all'), 1, 'wk-1', 1, 'gw-1'));
    await vi.waitFor(() => expect(directory.registered('wk-1')).toBe(false));
    await vi.waitFor(() => expect(directory.processes('gateway')).toHaveLength(1));
    expect(directory.registered('gw-1')).toBe(true);
    expect(changes).toContainEqual({ type: 'process', id: 'wk-1' });
    expect(workers(directory)).toEqual([]);
    await directory.register(WORKER);
    expect(directory.registered('wk-1')).toBe(true);
  });

  test('a lease that was lost is told as a change of the owner, and no longer held', async () => {
    const prefix = newPrefix();
    const { directory, changes } = await openDirectory(prefix);
    await directory.acquire('m', 'co-1');
    await vi.waitFor(() => expect(changes).toContainEqual({ type: 'owner', model: 'm' }));
    changes.length = 0;
    await withClient((client) => client.zadd(redisKeys(prefix).directoryOwnersUntil('all'), 1, 'm'));
    await vi.waitFor(() => expect(changes).toEqual([{ type: 'owner', model: 'm' }]));
    expect(directory.holds('m', 'co-1')).toBe(false);
    expect(directory.owner('m')).toBeUndefined();
  });
});

describe('Redis', () => {
  test('restarted without data: everything is claimed again, under higher epochs', async () => {
    const prefix = newPrefix();
    const a = await openDirectory(prefix);
    const b = await openDirectory(prefix);
    await a.directory.register(WORKER);
    const epoch = await a.directory.acquire('m', 'co-1', 41);
    await a.directory.publish('m', { text: 'one' });
    await a.directory.setValue('settings', 'loud');
    await vi.waitFor(() => expect(b.directory.value('settings')).toEqual({ text: 'loud', version: 1 }));
    expect(b.directory.record('m')).toEqual({ text: 'one' });
    await redis.kill('SIGKILL');
    await redis.start();
    // Before anyone told the new Redis: a free lease goes to its last holder only, and nobody is dead.
    expect(await b.directory.acquire('m', 'co-2')).toBeUndefined();
    expect(await b.directory.acquire('unknown', 'co-2')).toBeUndefined();
    expect(workers(b.directory)).toEqual(['wk-1']);
    expect(b.directory.record('m')).toEqual({ text: 'one' });
    await vi.waitFor(() => expect(b.directory.owner('m')?.number).toBeGreaterThan(epoch?.number ?? 0));
    expect(b.directory.owner('m')?.owner).toBe('co-1');
    await vi.waitFor(() => expect(a.directory.holds('m', 'co-1') && a.directory.registered('wk-1')).toBe(true));
    const keys = redisKeys(prefix);
    await vi.waitFor(async () => {
      expect(await withClient((client) => client.hget(keys.directoryRecords('all'), 'm'))).toBe('{"text":"one"}');
      expect(await withClient((client) => client.hkeys(keys.directoryProcesses('all')))).toEqual(['wk-1']);
      expect(await withClient((client) => client.hget(keys.directoryValues('all'), 'settings'))).toBe('loud');
    });
    expect(b.changes.filter((change) => change.type === 'process')).toEqual([{ type: 'process', id: 'wk-1' }]);
  });

  test('restarted without data: after the grace, who did not come back is gone', async () => {
    const prefix = newPrefix();
    const a = await openDirectory(prefix, SHORT);
    const b = await openDirectory(prefix, SHORT);
    await a.directory.register({ id: 'gw-1', role: 'gateway', draining: false });
    await a.directory.acquire('m', 'co-1');
    await vi.waitFor(() => expect(b.directory.owner('m')?.owner).toBe('co-1'));
    await a.close();
    await redis.kill('SIGKILL');
    await redis.start();
    await b.directory.publish('n', { text: 'new run' });
    await vi.waitFor(() => expect(b.directory.owner('m')).toBeUndefined(), { timeout: 10_000 });
    expect(b.directory.processes('gateway')).toEqual([]);
    expect(await vi.waitUntil(() => b.directory.acquire('m', 'co-2'), { timeout: 10_000 })).toBeDefined();
  });

  test('stopped for longer than a lease: nothing counts as held until it answers again', async () => {
    const { directory } = await openDirectory(newPrefix(), SHORT);
    await directory.register(WORKER);
    await directory.register({ id: 'gw-1', role: 'gateway', draining: false });
    await directory.acquire('m', 'co-1');
    process.kill(redis.pid, 'SIGSTOP');
    try {
      await vi.waitFor(() => expect(directory.registered('wk-1') || directory.holds('m', 'co-1')).toBe(false));
      await expect(directory.acquire('n', 'co-1')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    const again = async () => {
      await directory.acquire('m', 'co-1');
      await directory.register(WORKER);
      expect(directory.registered('wk-1') && directory.holds('m', 'co-1')).toBe(true);
    };
    await vi.waitFor(again, { timeout: 10_000 });
    await vi.waitFor(() => expect(directory.registered('gw-1')).toBe(true), { timeout: 10_000 });
  });

  test('unreachable: start says so', async () => {
    const connector = connectRedis(`unix://${redis.socket}.none`, { name: 'test' });
    const directory = createRedisDirectory<Held>({
      connector,
      prefix: newPrefix(),
      log,
      clock: systemClock(),
      timing: SHORT,
      encode: JSON.stringify,
      decode: JSON.parse,
    });
    await expect(directory.start()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await directory.close();
    connector.close();
  });
});

test('no timer and no connection is left after close, also with calls under way', async () => {
  const before = await withClient((client) => client.client('LIST'));
  const opened = await openDirectory(newPrefix());
  const calls = [
    opened.directory.register(WORKER),
    opened.directory.acquire('m', 'co-1'),
    opened.directory.publish('m', { text: 'one' }),
  ];
  await opened.close();
  const ends = await Promise.allSettled(calls);
  for (const end of ends) expect(end).toMatchObject({ status: 'rejected', reason: { code: 'UNAVAILABLE' } });
  expect(opened.clock.liveTimers).toBe(0);
  const count = (list: unknown) => String(list).trim().split('\n').length;
  await vi.waitFor(async () => expect(count(await withClient((client) => client.client('LIST')))).toBe(count(before)));
});
