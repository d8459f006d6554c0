import { createLog, systemClock } from '@nereid/runtime';
import { describe, expect, test, vi } from 'vitest';
import { redisKeys } from './redis-keys.ts';
import { createRedisResources } from './redis-resources.ts';
import { useRedisLane } from './redis-transport-fixture.ts';
import { sharedResourcesContract, testMember } from './shared-resources-contract.ts';
import { timing } from './timing.ts';

const lane = useRedisLane();
let prefixes = 0;
const clock = systemClock();
const LATER = Date.now() + 3_600_000;

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
    open: (id: string) =>
      createRedisResources({
        connector: lane.connector(`test:${id}`),
        prefix,
        clock,
        log: createLog({ level: 'silent' }),
        // Looks every 20 ms; the grace of a new run is 100 ms.
        timing: timing(0.04),
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
      vi.waitFor(async () =>
        expect(JSON.parse((await lane.admin.client.hget(claims, id)) ?? '{}').ticket).toBeGreaterThan(0),
      ),
  };
});

describe('shared resources in Redis', () => {
  const pair = async () => {
    const all = cluster();
    await all.register('wk-1');
    await all.register('wk-2');
    return {
      ...all,
      one: testMember(all.open('wk-1'), 'wk-1', { G: 1 }),
      two: testMember(all.open('wk-2'), 'wk-2', { G: 1 }),
    };
  };
  const has = (worker: ReturnType<typeof testMember>) => vi.waitFor(() => expect(worker.held).toEqual({ G: 1 }));

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
    const { one, two, register, keys } = await pair();
    one.want({ G: 1 });
    await has(one);
    await lane.admin.client.flushall();
    for (const id of ['wk-1', 'wk-2']) await register(id);
    two.want({ G: 1 });
    const claims = keys.resourceClaims('all');
    await vi.waitFor(async () => {
      expect(JSON.parse((await lane.admin.client.hget(claims, 'wk-1')) ?? '{}').held).toEqual({ G: 1 });
    });
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
    expect(await lane.clientIds('test:wk-idle')).toEqual([]);
    await Promise.all([one.close(), two.close(), idle.close()]);
    expect(await lane.admin.client.exists(keys.resourceClaims('all'))).toBe(0);
    expect(await lane.admin.client.pttl(keys.resourceMeta('all'))).toBeGreaterThan(0);
  });
});

test('no timer is left', () => expect(clock.liveTimers).toBe(0));
