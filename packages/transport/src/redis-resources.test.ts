import { createLog, type Log, systemClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import { infoFields } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { createRedisResources } from './redis-resources.ts';
import { useRedisLane } from './redis-transport-fixture.ts';
import { sharedResourcesContract, testMember } from './shared-resources-contract.ts';
import { type Timing, timing } from './timing.ts';

const lane = useRedisLane();
let prefixes = 0;
const clock = systemClock();
const LATER = Date.now() + 3_600_000;
const NOTHING = { limits: new Map(), held: new Map(), wanted: new Map(), wish: 0 };
// Looks every 20 ms; the grace of a new run is 100 ms.
const TIMES = timing(0.04);
/** The same where Redis may take its time to answer. */
const PATIENT: Timing = { ...TIMES, lease_ms: 10_000 };

/** Members of a prefix of their own, each registered unless it is told otherwise. */
function cluster() {
  const prefix = `r${++prefixes}`;
  const keys = redisKeys(prefix);
  const until = keys.directoryProcessesUntil('all');
  const { client } = lane.admin;
  return {
    keys,
    register: (id: string) => client.zadd(until, LATER, id),
    die: (id: string) => client.zrem(until, id),
    open: (id: string, { log = createLog({ level: 'silent' }), times = TIMES }: { log?: Log; times?: Timing } = {}) =>
      createRedisResources({
        connector: lane.connector(`test:${id}`),
        prefix,
        clock,
        log,
        timing: times,
      }),
  };
}

sharedResourcesContract('in Redis', () => {
  const { register, open, keys } = cluster();
  const claims = keys.resourceClaims('all');
  return {
    async of(id) {
      await register(id);
      return open(id);
    },
    waits: (id) =>
      expect.poll(async () => JSON.parse((await lane.admin.client.hget(claims, id)) ?? '{}').ticket).toBeGreaterThan(0),
  };
});

describe('shared resources in Redis', () => {
  const pair = async (times = TIMES) => {
    const all = cluster();
    await all.register('wk-1');
    await all.register('wk-2');
    return {
      ...all,
      one: testMember(all.open('wk-1', { times }), 'wk-1', { G: 1 }),
      two: testMember(all.open('wk-2', { times }), 'wk-2', { G: 1 }),
    };
  };
  const alone = async (options: Parameters<ReturnType<typeof cluster>['open']>[1] = {}) => {
    const all = cluster();
    await all.register('wk-1');
    return { ...all, one: testMember(all.open('wk-1', options), 'wk-1', { G: 1 }) };
  };
  const has = (worker: ReturnType<typeof testMember>) => expect.poll(() => worker.held).toEqual({ G: 1 });

  test('what a worker holds that is no longer registered is free', async () => {
    const { one, two, die } = await pair();
    one.want({ G: 1 });
    await has(one);
    two.want({ G: 1 });
    await die('wk-1');
    await has(two);
    await Promise.all([one.close(), two.close()]);
  });

  test('a Redis that lost everything is told again what is held before anything is granted', async () => {
    // A grace in which the one that holds it has its turn for sure.
    const { one, two, register, keys } = await pair({ ...TIMES, lease_ms: 400 });
    one.want({ G: 1 });
    await has(one);
    await lane.admin.client.flushall();
    for (const id of ['wk-1', 'wk-2']) await register(id);
    two.want({ G: 1 });
    const claims = keys.resourceClaims('all');
    await expect
      .poll(async () => JSON.parse((await lane.admin.client.hget(claims, 'wk-1')) ?? '{}').held)
      .toEqual({ G: 1 });
    expect(two.held).toEqual({});
    one.release();
    await has(two);
    await Promise.all([one.close(), two.close()]);
  });

  test('goes on where connections break', async () => {
    const { one, two } = await pair();
    one.want({ G: 1 });
    await has(one);
    two.want({ G: 1 });
    await lane.admin.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await lane.admin.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    one.release();
    await has(two);
    await Promise.all([one.close(), two.close()]);
  });

  test('nothing is dialled while there is nothing to tell, and nothing is left in Redis at the end', async () => {
    const { one, two, keys, open } = await pair();
    const idle = testMember(open('wk-idle'), 'wk-idle', {});
    one.want({ G: 1 });
    await has(one);
    expect(await lane.clientIds('nereid:test:wk-1:resources')).toHaveLength(1);
    expect(await lane.clientIds('nereid:test:wk-idle:resources')).toEqual([]);
    await Promise.all([one.close(), two.close(), idle.close()]);
    expect(await lane.admin.client.exists(keys.resourceClaims('all'))).toBe(0);
    expect(await lane.admin.client.pttl(keys.resourceMeta('all'))).toBeGreaterThan(0);
  });

  test('are granted also where times are stretched to no whole milliseconds', async () => {
    const { one } = await alone({ times: timing(0.040_01) });
    one.want({ G: 1 });
    await has(one);
    await one.close();
  });

  test('what was told last before a close is heard, also while a call is under way', async () => {
    const { one, keys } = await alone();
    one.want({ G: 1 });
    await has(one);
    one.release();
    one.member.tell(NOTHING);
    await one.close();
    expect(await lane.admin.client.exists(keys.resourceClaims('all'))).toBe(0);
  });

  test('a refusal of Redis is no reason to dial anew', async () => {
    const { one, keys } = await alone({ times: PATIENT });
    const dialled = () => lane.clientIds('nereid:test:wk-1:resources');
    one.want({ G: 1 });
    await has(one);
    const before = await dialled();
    // Each call finds something else where the claims should be.
    await lane.admin.client.set(keys.resourceClaims('all'), 'no hash');
    await expect
      .poll(async () => infoFields(await lane.admin.client.info('errorstats')).get('errorstat_WRONGTYPE') ?? '')
      .toMatch(/count=([3-9]|\d\d)/);
    await lane.admin.client.del(keys.resourceClaims('all'));
    await expect.poll(() => lane.admin.client.exists(keys.resourceClaims('all'))).toBe(1);
    expect(await dialled()).toEqual(before);
    await one.close();
  });

  test('claims that ran out while there was nothing to tell are no new run', async () => {
    const lines: string[] = [];
    const log = createLog({ level: 'warn', destination: { write: (line) => void lines.push(line) } });
    const { one, keys } = await alone({ log, times: PATIENT });
    one.want({ G: 1 });
    await has(one);
    one.member.tell(NOTHING);
    await expect.poll(() => clock.liveTimers).toBe(0);
    await lane.admin.client.del(keys.resourceMeta('all'));
    one.want({ G: 1 });
    await expect.poll(() => lane.admin.client.exists(keys.resourceClaims('all'))).toBe(1);
    one.member.tell(NOTHING);
    await expect.poll(() => clock.liveTimers).toBe(0);
    expect(lines).toEqual([]);
    await one.close();
  });

  test('a Redis that came back with its claims waits for those who hold something, whoever calls first', async () => {
    const { register, keys, open } = cluster();
    const { client } = lane.admin;
    const meta = keys.resourceMeta('all');
    // As the run before left them; the registration of who holds it ended meanwhile.
    const held = { limits: { G: 1 }, held: { G: 1 }, wanted: {}, wish: 1, ticket: 0, granted: 0, seq: 1 };
    await client.hset(keys.resourceClaims('all'), 'wk-1', JSON.stringify(held));
    await client.hset(meta, 'created', '1', 'run', 'before.1');
    await register('wk-2');
    const two = testMember(open('wk-2'), 'wk-2', { G: 1 });
    two.want({ G: 1 });
    await has(two);
    expect(await client.hget(meta, 'graced')).toBe(await client.hget(meta, 'run'));
    await two.close();
  });
});

test('no timer is left', () => expect(clock.liveTimers).toBe(0));
