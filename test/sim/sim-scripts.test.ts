/** What the simulated Redis does for the scripts, held against the scripts themselves on a real one. */
import { type Random, seededRandom } from '@nereid/runtime';
import { connectRedis, type RedisConnection, redisKeys } from '@nereid/transport';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { DIRECTORY_KEYS, directoryScript } from '../../packages/transport/src/directory-script.ts';
import { packParcels } from '../../packages/transport/src/mailbox-parcel.ts';
import { mailboxScripts } from '../../packages/transport/src/redis-scripts.ts';
import { type RedisServerFixture, startRedisServer } from '../../packages/transport/src/redis-server-fixture.ts';
import { RESOURCE_KEYS, resourcesScript } from '../../packages/transport/src/resources-script.ts';
import { between, pick } from './sim-models.ts';
import { createSimRedis, type SimRedis } from './sim-redis.ts';
import { simScripts } from './sim-scripts.ts';
import { createSimWorld, type SimWorld } from './sim-world.ts';
import { switchOff } from './switches.ts';

const CALLS = 1_500;
const SCRIPTS = simScripts(switchOff().scripts);
const KEYS = redisKeys('nereid');
const DIRECTORY = DIRECTORY_KEYS.map((name) => KEYS[name]('all'));
const META = KEYS.directoryMeta('all');
const TIME = "redis.call('MGET', 'world-s', 'world-us')";
/** Coarse, so that times often meet exactly. */
const STEP_MS = 100;
const STEP_US = 100_000;
const GRACE_MS = 2_500;
const WRITER_MS = 10_000;

let server: RedisServerFixture;
let connection: RedisConnection;
let world: SimWorld;
let redis: SimRedis;

beforeAll(async () => {
  server = await startRedisServer();
  connection = connectRedis(server.url, { name: 'test:scripts' }).connect('scripts');
  await connection.ready();
});
beforeEach(async () => {
  await connection.client.flushall();
  world = createSimWorld();
  redis = createSimRedis(world);
});
afterAll(async () => {
  connection.close();
  await server.stop();
});

const run = (name: string, keys: readonly string[], args: readonly (string | Buffer)[]) => {
  const script = SCRIPTS[name];
  if (script === undefined) throw new Error(`no script '${name}'`);
  return script(redis, keys, args);
};

/** Names of runs in arguments: `{run}` is the present one of each side. */
const RUNS = ['{run}', '{run}', '{run}', 'another', ''] as const;

function verbArgs(random: Random, verb: string): string[] {
  const model = pick(random, ['m', 'n']);
  const owner = pick(random, ['co-1', 'co-2']);
  const ttl = `${Math.floor(between(random, 2, 30)) * STEP_MS}`;
  const until = `${redis.nowMs() + Math.floor(between(random, -10, 10)) * STEP_MS}`;
  const claim = () => [pick(random, ['wk-1', 'wk-2']), 'worker', '0', ttl, pick(random, RUNS), until];
  const lease = () => [model, owner, `${1 + Math.floor(random.next() * 8)}`, pick(random, RUNS)];
  switch (verb) {
    case 'register':
      return [
        pick(random, ['wk-1', 'wk-2', 'gw-1']),
        pick(random, ['worker', 'gateway']),
        pick(random, ['0', '1']),
        ttl,
      ];
    case 'leave':
      return [pick(random, ['wk-1', 'gw-1'])];
    case 'acquire':
      return [model, owner, ttl, `${Math.floor(random.next() * 6)}`, pick(random, ['0', '0', '1'])];
    case 'release':
      return [model, owner];
    case 'publish':
      return [model, `record ${random.next()}`, pick(random, [owner, ''])];
    case 'withdraw':
      return [model, pick(random, [owner, ''])];
    case 'value':
      return [
        pick(random, ['a', 'b', 'c']),
        `value ${random.next()}`,
        `${Math.floor(random.next() * 6)}`,
        pick(random, ['0', '1']),
        '2',
      ];
    default: {
      const claims =
        random.next() < 0.5 ? [...claim(), 'gw-1', 'gateway', '0', ttl, pick(random, RUNS), until] : claim();
      return [ttl, `${claims.length / 6}`, ...claims, ...(random.next() < 0.7 ? lease() : [])];
    }
  }
}

const VERBS = [
  ...['beat', 'beat', 'beat', 'register', 'leave', 'acquire', 'acquire', 'release', 'publish', 'withdraw'],
  ...['value', 'value'],
];

/** An answer with each side's run by one name, and hashes in the order of their names. */
function plain(answer: unknown, runName: string): unknown {
  if (!Array.isArray(answer) || answer[0] === 'late') return answer;
  const [name, version, ms, result, ...news] = answer as readonly unknown[];
  expect(name).toBe(runName);
  const sorted = news.map((flat, index) => {
    const list = (flat as readonly unknown[]).map(String);
    if (index === 2) return list.sort();
    return list.flatMap((value, n) => (n % 2 === 0 ? [`${value}=${list[n + 1]}`] : [])).sort();
  });
  return [Number(version), Number(ms), JSON.stringify(result), ...sorted];
}

test('the directory', async () => {
  const random = seededRandom(4);
  const lua = directoryScript(TIME);
  const sequences = new Map<string, number>();
  const runs = { real: '', simulated: '' };
  let version = '-1';
  for (let call = 0; call < CALLS; call++) {
    await world.run(world.nowUs() + Math.floor(random.next() ** 3 * 15) * STEP_US);
    if (random.next() < 0.01) {
      await connection.client.flushall();
      for (const key of redis.keys()) redis.delete(key);
    } else if (random.next() < 0.05) {
      // As after a failover: the next process that knows another run begins a grace.
      await connection.client.hdel(META, 'graced');
      redis.put(META, new Map([...redis.hash(META)].filter(([field]) => field !== 'graced')));
    }
    const seconds = Math.floor(redis.nowMs() / 1_000);
    await connection.client.mset('world-s', seconds, 'world-us', (redis.nowMs() % 1_000) * 1_000);
    const writer = pick(random, ['a', 'b']);
    const sequence = Math.max(0, (sequences.get(writer) ?? 0) + pick(random, [1, 1, 1, 1, 0]));
    sequences.set(writer, sequence);
    const verb = pick(random, VERBS);
    const since = pick(random, [
      ['{run}', version],
      ['{run}', version],
      ['', '-1'],
      ['another', '3'],
    ] as const);
    const highest = `${Math.floor(random.next() * 5)}`;
    const common = [verb, 'changes', writer, `${sequence}`, ...since, highest, `${GRACE_MS}`, `${WRITER_MS}`];
    const args = [...common, ...verbArgs(random, verb)];
    const of = (name: string) => args.map((argument) => (argument === '{run}' ? name : argument));
    const real = await connection.client.eval(lua, DIRECTORY.length, ...DIRECTORY, ...of(runs.real));
    const simulated = run('nereidDirectory', DIRECTORY, of(runs.simulated));
    if (Array.isArray(real) && real[0] !== 'late') {
      runs.real = String(real[0]);
      runs.simulated = String((simulated as readonly unknown[])[0]);
      version = String(real[1]);
    }
    expect(plain(simulated, runs.simulated), `call ${call}: ${args}`).toEqual(plain(real, runs.real));
  }
});

test('mailboxes', async () => {
  const random = seededRandom(5);
  const keys = [KEYS.mailbox('a'), KEYS.mailboxOpen('a')] as const;
  const scripts = mailboxScripts(connection.client);
  for (let call = 0; call < CALLS; call++) {
    const fate = random.next();
    if (fate < 0.1) {
      const args = ['60000', pick(random, ['3', '5']), pick(random, ['40', '100']), random.next() < 0.1 ? '1' : '0'];
      expect(run('nereidMailboxOpen', keys, args)).toEqual(await scripts.open(keys, args));
    } else if (fate < 0.13) {
      await connection.client.del(...keys);
      for (const key of keys) redis.delete(key);
    } else if (fate < 0.4) {
      const count = 1 + Math.floor(random.next() * 3);
      const popped = (await connection.client.lpopBuffer(keys[0], count)) ?? [];
      const frames = redis.list(keys[0]);
      redis.put(keys[0], frames.slice(count));
      expect(frames.slice(0, count)).toEqual(popped);
    } else {
      const frames = Array.from({ length: 1 + Math.floor(random.next() * 4) }, () =>
        Buffer.alloc(Math.floor(random.next() * 50), call),
      );
      // As numbers for the client, which turns them into text.
      const args = ['60000', ...packParcels(frames).map((part) => (typeof part === 'number' ? `${part}` : part))];
      expect(run('nereidMailboxPush', keys, args), `call ${call}`).toEqual(await scripts.push(keys, args));
    }
    expect(redis.list(keys[0])).toEqual(await connection.client.lrangeBuffer(keys[0], 0, -1));
  }
});

const RESOURCES = RESOURCE_KEYS.map((name) => KEYS[name]('all'));

/** Of what is in a hash of claims, whatever the order of its texts' members. */
function claimsIn(hash: Iterable<readonly [string, string]>): Record<string, unknown> {
  return Object.fromEntries([...hash].map(([id, text]) => [id, JSON.parse(text)]));
}

function claimText(random: Random, wish: number): string {
  const counts = (share: number, max: number) =>
    Object.fromEntries(
      ['G', 'H'].flatMap((name) => (random.next() < share ? [[name, Math.floor(random.next() * (max + 1))]] : [])),
    );
  return JSON.stringify({ limits: counts(0.9, 3), held: counts(0.3, 2), wanted: counts(0.5, 2), wish });
}

test('shared resources', async () => {
  const random = seededRandom(6);
  const lua = resourcesScript(TIME);
  const [claims = '', meta = '', until = ''] = RESOURCES;
  const sequences = new Map<string, number>();
  const runs = { real: '', simulated: '' };
  let granted = 0;
  let woken = 0;
  for (let call = 0; call < CALLS; call++) {
    await world.run(world.nowUs() + Math.floor(random.next() ** 3 * 15) * STEP_US);
    if (random.next() < 0.01) {
      await connection.client.flushall();
      for (const key of redis.keys()) redis.delete(key);
    } else if (random.next() < 0.03) {
      await connection.client.hdel(meta, 'graced');
      redis.put(meta, new Map([...redis.hash(meta)].filter(([field]) => field !== 'graced')));
    }
    const worker = pick(random, ['wk-1', 'wk-2', 'wk-3', 'wk-4']);
    if (random.next() < 0.4) {
      const ends = `${redis.nowMs() + Math.floor(between(random, -2, 30)) * STEP_MS}`;
      await connection.client.zadd(until, ends, worker);
      redis.put(until, new Map([...redis.hash(until), [worker, ends]]));
    }
    await connection.client.mset(
      'world-s',
      Math.floor(redis.nowMs() / 1_000),
      'world-us',
      (redis.nowMs() % 1_000) * 1_000,
    );
    const sequence = (sequences.get(worker) ?? 0) + pick(random, [1, 1, 1, 1, 0]);
    sequences.set(worker, sequence);
    const since = pick(random, ['{run}', '{run}', '{run}', '{run}', '', 'another']);
    const text = random.next() < 0.1 ? '' : claimText(random, 1 + Math.floor(sequence / 3));
    // The keys live for longer than the test, whose two clocks differ.
    const args = ['changes', worker, `${sequence}`, since, `${GRACE_MS}`, '100000000', text];
    const of = (name: string) => args.map((argument) => (argument === '{run}' ? name : argument));
    const real = (await connection.client.eval(lua, RESOURCES.length, ...RESOURCES, ...of(runs.real))) as unknown[];
    const simulated = run('nereidResources', RESOURCES, of(runs.simulated)) as unknown[];
    expect(simulated.slice(1), `call ${call}: ${args}`).toEqual(real.slice(1));
    if (real[0] !== 'late') {
      runs.real = String(real[0]);
      runs.simulated = String(simulated[0]);
    } else expect(simulated).toEqual(real);
    granted += Number(real[1] ?? 0);
    woken += ((real[2] ?? []) as readonly string[]).length;
    const kept = Object.entries(await connection.client.hgetall(claims));
    expect(claimsIn(redis.hash(claims)), `call ${call}: ${args}`).toEqual(claimsIn(kept));
  }
  expect([granted > 50, woken > 50]).toEqual([true, true]);
});
