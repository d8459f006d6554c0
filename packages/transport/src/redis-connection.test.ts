import { once } from 'node:events';
import { createServer } from 'node:net';
import { createLog, systemClock } from '@nereid/runtime';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { BOUNDS, stepsOf } from './journal-fixture.ts';
import { createJournalStore } from './journal-redis.ts';
import { mailboxContract } from './mailbox-contract.ts';
import { checkRedis } from './redis-checks.ts';
import { connectRedis, type RedisConnection, type RedisConnector } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { createRedisTransport } from './redis-transport.ts';
import { REDIS_BLOBS } from './redis-transport-fixture.ts';
import { timing } from './timing.ts';

const event = (connection: RedisConnection, wanted: 'lost' | 'ready') =>
  new Promise<void>((resolve) => {
    const stop = connection.watch((got) => {
      if (got !== wanted) return;
      stop();
      resolve();
    });
  });

describe('redis connection', () => {
  let redis: RedisServerFixture;
  let connector: RedisConnector;
  beforeAll(async () => {
    redis = await startRedisServer();
  });
  afterAll(() => redis.stop());
  afterEach(() => connector.close());

  test('it bears its name and dials only when it is wanted', async () => {
    connector = connectRedis(redis.url, { name: 'gateway:gw-1' });
    const looking = connector.connect('look');
    const idle = connector.connect('idle');
    await looking.ready();
    expect(await looking.client.client('GETNAME')).toBe('nereid:gateway:gw-1:look');
    expect(String(await looking.client.call('CLIENT', 'LIST'))).not.toContain('gw-1:idle');
    expect(idle.isReady).toBe(false);
  });

  test('what is asked while it is away is rejected and never sent', async () => {
    connector = connectRedis(redis.url, { name: 'test' });
    const connection = connector.connect('a');
    await expect(connection.client.set('early', '1')).rejects.toThrow();
    await connection.ready();
    const lost = event(connection, 'lost');
    const first = connection.runId;
    await redis.kill('SIGKILL');
    await lost;
    await expect(connection.client.set('away', '1')).rejects.toThrow();
    await redis.start();
    await connection.ready();
    expect(await connection.client.exists('early', 'away')).toBe(0);
    expect(connection.runId).not.toBe(first);
  });

  test('what is under way when it is lost is rejected and never sent again', async () => {
    connector = connectRedis(redis.url, { name: 'test' });
    const [blocked, admin] = [connector.connect('blocked'), connector.connect('admin')];
    await Promise.all([blocked.ready(), admin.ready()]);
    const id = await blocked.client.client('ID');
    const pop = blocked.client.blmpop(5, 1, 'list', 'LEFT', 'COUNT', 1);
    const again = event(blocked, 'ready');
    await Promise.all([expect(pop).rejects.toThrow(), admin.client.call('CLIENT', 'KILL', 'ID', `${id}`)]);
    await again;
    await admin.client.rpush('list', 'kept');
    expect(await blocked.client.llen('list')).toBe(1);
    await admin.client.del('list');
  });

  test('a server that still reads its data set is not ready', async () => {
    // A fake says `loading:1` twice, as Redis does while it starts.
    let asked = 0;
    const server = createServer((socket) => {
      socket.on('data', (data) => {
        for (const _ of String(data).matchAll(/\$4\r\n(?:info|INFO)\r\n/g)) {
          const text = `run_id:abc\r\nloading:${asked++ < 2 ? 1 : 0}\r\n`;
          socket.write(`$${text.length}\r\n${text}\r\n`);
        }
        if (/hello/i.test(String(data))) socket.write('-NOPROTO sorry\r\n');
        if (/setname/i.test(String(data))) socket.write('+OK\r\n');
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    connector = connectRedis(`redis://127.0.0.1:${address.port}`, { name: 'test' });
    const loading = connector.connect('a');
    await loading.ready();
    expect(asked).toBe(3);
    expect(loading.runId).toBe('abc');
    connector.close();
    server.close();
  });

  test('closed is final', async () => {
    connector = connectRedis(redis.url, { name: 'test' });
    const [open, waiting] = [connector.connect('a'), connector.connect('b')];
    await open.ready();
    const refused = expect(waiting.ready()).rejects.toThrow('no connection to Redis');
    connector.close();
    await refused;
    await expect(open.ready()).rejects.toThrow('no connection to Redis');
    expect(open.isReady).toBe(false);
  });
});

describe('a Cluster', () => {
  let redis: RedisServerFixture;
  let url: string;
  let connector: RedisConnector;
  beforeAll(async () => {
    const port = await freePort();
    const bus = await freePort();
    const flags = ['--port', `${port}`, '--bind', '127.0.0.1', '--cluster-enabled', 'yes', '--cluster-port', `${bus}`];
    redis = await startRedisServer([...flags, '--cluster-announce-ip', '127.0.0.1']);
    // One node that serves every slot: keys of two slots in one command are refused all the same.
    url = `redis://127.0.0.1:${port},127.0.0.1:${port}`;
    const setup = connectRedis(redis.url, { name: 'test:setup' });
    const connection = setup.connect('setup');
    await connection.ready();
    await connection.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await vi.waitFor(
      async () => expect(await connection.client.call('CLUSTER', 'INFO')).toContain('cluster_state:ok'),
      { timeout: 20_000 },
    );
    setup.close();
  });
  afterAll(() => redis.stop());
  afterEach(() => connector?.close());

  test('the check takes it, and refuses one of its nodes named alone', async () => {
    connector = connectRedis(url, { name: 'test' });
    expect(await checkRedis(connector, { allowEvicting: false, prefix: 'nereid' })).toMatchObject({ warnings: [] });
    const single = connectRedis(redis.url, { name: 'test' });
    await expect(checkRedis(single, { allowEvicting: false, prefix: 'nereid' })).rejects.toThrow('separated by commas');
    single.close();
  });

  test('has recordings of several models, and lets go of them', async () => {
    connector = connectRedis(url, { name: 'test' });
    const log = createLog({ level: 'silent' });
    const limits = { ...BOUNDS, recordings: 1 };
    const journal = createJournalStore({ connector, prefix: 'nereid', clock: systemClock(), log, limits });
    for (const model of ['a', 'b']) {
      await journal.append([...stepsOf('s', 0, 2, { model }), ...stepsOf('t', 0, 2, { model })]);
      await journal.end([{ id: `${model}~t`, model, kind: 'sequence', state: 'lost', worker: 'wk-1' }]);
      const { recordings } = await journal.list({ model, limit: 5, after: '' });
      expect(recordings).toMatchObject([{ id: `${model}~t`, state: 'lost', steps: 2 }]);
      expect(await journal.steps(`${model}~t`, 0, 5)).toHaveLength(2);
    }
    expect(await journal.models()).toEqual(['a', 'b']);
    expect([journal.dropped, await journal.remove('a~t')]).toEqual([0, true]);
    expect(await journal.models()).toEqual(['b']);
  });

  mailboxContract('redis cluster', (limits) => {
    connector = connectRedis(url, { name: 'test' });
    return createRedisTransport({
      connector,
      prefix: 'nereid',
      limits,
      log: createLog({ level: 'silent' }),
      clock: systemClock(),
      timing: timing(),
      blobs: REDIS_BLOBS,
    });
  });

  test('a lost connection is told once it works again', async () => {
    connector = connectRedis(url, { name: 'test' });
    const transport = createRedisTransport({
      connector,
      prefix: 'nereid',
      limits: { messages_max: 10, bytes_max: 10_000 },
      log: createLog({ level: 'silent' }),
      clock: systemClock(),
      timing: timing(),
      blobs: REDIS_BLOBS,
    });
    let wake = () => {};
    const box = transport.open('co-1', () => wake());
    await transport.opened();
    const told = new Promise<void>((resolve) => transport.onInterruption(resolve));
    const admin = connectRedis(redis.url, { name: 'test:admin' });
    const connection = admin.connect('kill');
    await connection.ready();
    await connection.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await told;
    const got = new Promise<void>((resolve) => {
      wake = resolve;
    });
    box.send('co-1', { kind: 'stale', model: 'm', id: '1', known: null });
    await got;
    admin.close();
    await transport.close();
  });
});

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
