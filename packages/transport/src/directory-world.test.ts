import { type Random, seededRandom } from '@nereid/runtime';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createWorld, settled, type World, type WorldProcess } from './directory-world-fixture.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

const TIMING = timing();
const SECOND_US = 1e6;
const SEEDS = 40;
const STEPS = 400;
const WORKER = { id: 'wk-1', role: 'worker', draining: false } as const;

let redis: RedisServerFixture;
let client: Redis;
let world: World;

beforeAll(async () => {
  redis = await startRedisServer();
  client = new Redis({ path: redis.socket });
});
beforeEach(async () => {
  await client.flushall();
  world = createWorld(client, TIMING, seededRandom(1));
});
afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

/** Awaits a call while the world goes on without faults. */
async function calmly<T>(call: Promise<T>): Promise<T> {
  let isOver = false;
  const over = call.finally(() => {
    isOver = true;
  });
  over.catch(() => {});
  while (!isOver) await world.calm(10_000);
  return over;
}

async function start(): Promise<WorldProcess> {
  const process = world.process();
  await calmly(process.directory.start());
  return process;
}

describe('without faults', () => {
  test('what is held stays held, at each moment', async () => {
    const { directory } = await start();
    await calmly(directory.register(WORKER));
    const epoch = await calmly(directory.acquire('m', 'co-1'));
    await world.calm(30 * SECOND_US, () => {
      expect(directory.registered('wk-1') && directory.holds('m', 'co-1')).toBe(true);
    });
    expect(directory.owner('m')).toEqual(epoch);
  });

  test('one that is closed before it has started has no timer left', async () => {
    let subscribed = () => {};
    const { directory } = world.process(() => new Promise((resolve) => (subscribed = resolve)));
    const started = directory.start();
    await world.calm(100_000);
    await directory.close();
    subscribed();
    await started;
    expect(world.liveTimers).toBe(0);
  });

  test('an owner’s death is seen within a lease and a heartbeat', async () => {
    const [a, b] = [await start(), await start()];
    const epoch = await calmly(a.directory.acquire('m', 'co-1'));
    await world.calm(3 * SECOND_US);
    expect(b.directory.owner('m')).toEqual(epoch);
    a.isPaused = true;
    await world.calm((TIMING.lease_ms + TIMING.heartbeat_ms + 50) * 1000);
    expect(b.directory.owner('m')).toBeUndefined();
    expect(await calmly(b.directory.acquire('m', 'co-2'))).toEqual({ number: 2, owner: 'co-2' });
  });
});

test('what is given back is not held any more, from the call on', async () => {
  const { directory } = await start();
  await calmly(directory.register(WORKER));
  await calmly(directory.acquire('m', 'co-1'));
  const calls = [directory.leave('wk-1'), directory.release('m', 'co-1')];
  expect(directory.registered('wk-1') || directory.holds('m', 'co-1')).toBe(false);
  await calmly(Promise.all(calls));
  expect(directory.registered('wk-1') || directory.holds('m', 'co-1')).toBe(false);
});

test('calls take turns, so that what is asked later happens later', async () => {
  const { directory, ...a } = await start();
  const calls = [directory.publish('m', 'one'), directory.publish('m', 'two')];
  await settled();
  await a.run();
  await a.run();
  expect(await client.hget('directoryRecords', 'm')).toBe('one');
  await calmly(Promise.all(calls));
  expect(directory.record('m')).toBe('two');
});

describe('a command of a broken connection', () => {
  test('R2: an acquisition whose answer was lost is repeated at once', async () => {
    const { directory, ...a } = await start();
    const asked = directory.acquire('m', 'co-1');
    await settled();
    await a.run();
    a.cut();
    await world.calm(TIMING.heartbeat_ms * 1000);
    expect(await asked).toEqual({ number: 2, owner: 'co-1' });
    expect(directory.holds('m', 'co-1')).toBe(true);
  });

  test('that runs after later ones does nothing', async () => {
    world = createWorld(client, TIMING, { next: () => 0 });
    const [a, b] = [await start(), await start()];
    const cutOff = async <T>(call: Promise<T>) => {
      await settled();
      a.cut();
      return calmly(call);
    };
    await cutOff(a.directory.acquire('m', 'co-1'));
    await cutOff(a.directory.publish('m', 'old'));
    await calmly(a.directory.publish('m', 'new'));
    await calmly(a.directory.release('m', 'co-1'));
    await world.runLate();
    await world.runLate();
    await world.calm(SECOND_US);
    expect(b.directory.owner('m')).toBeUndefined();
    expect(b.directory.record('m')).toBe('new');
  });
});

describe('R10: a worker that was away for', () => {
  // Its last renewal ran up to a heartbeat before it went.
  const JUST_IN_TIME_US = (TIMING.worker_registration_ms - TIMING.heartbeat_ms - 100) * 1000;
  const TOO_LONG_US = TIMING.worker_registration_ms * 1000;

  test.each([
    { away: 'less than its registration', awayUs: JUST_IN_TIME_US, wiped: false, comesBack: true },
    { away: 'longer', awayUs: TOO_LONG_US, wiped: false, comesBack: false },
    { away: 'less, while Redis lost its data', awayUs: JUST_IN_TIME_US, wiped: true, comesBack: true },
    { away: 'longer, while Redis lost its data', awayUs: TOO_LONG_US, wiped: true, comesBack: false },
  ])('$away comes back by itself: $comesBack', async ({ awayUs, wiped, comesBack }) => {
    const [a, b] = [await start(), await start()];
    await calmly(a.directory.register(WORKER));
    await world.calm(3 * SECOND_US);
    a.isPaused = true;
    await world.calm(awayUs / 2);
    if (wiped) await world.wipe();
    await world.calm(awayUs / 2);
    a.isPaused = false;
    await world.calm(4 * SECOND_US);
    expect(a.directory.registered('wk-1')).toBe(comesBack);
    expect(b.directory.processes('worker')).toEqual(comesBack ? [WORKER] : []);
    await calmly(a.directory.register(WORKER));
    expect(a.directory.registered('wk-1')).toBe(true);
  });
});

describe('a new run', () => {
  test.each(['restart', 'wipe'] as const)('after a %s: all is claimed again in time', async (fault) => {
    const [a, b] = [await start(), await start()];
    await calmly(a.directory.register(WORKER));
    const epoch = await calmly(a.directory.acquire('m', 'co-1'));
    await calmly(a.directory.publish('m', 'text'));
    await world.calm(SECOND_US);
    await world[fault]();
    await world.calm(10 * SECOND_US, () => {
      expect(b.directory.processes('worker')).toEqual([WORKER]);
      expect(b.directory.owner('m')?.owner).toBe('co-1');
      expect(b.directory.record('m')).toBe('text');
      expect(a.directory.registered('wk-1') && a.directory.holds('m', 'co-1')).toBe(true);
    });
    const number = b.directory.owner('m')?.number ?? 0;
    if (fault === 'wipe') expect(number).toBeGreaterThan(epoch?.number ?? 0);
    else expect(number).toBe(epoch?.number);
  });

  test('R11: a restart that took longer than all registrations: nobody is held for dead', async () => {
    const [a, b] = [await start(), await start()];
    await calmly(a.directory.register(WORKER));
    const epoch = await calmly(a.directory.acquire('m', 'co-1'));
    await world.calm(SECOND_US);
    await world.restart();
    world.advance(5 * SECOND_US);
    await settled();
    expect(a.directory.registered('wk-1') || a.directory.holds('m', 'co-1')).toBe(false);
    await world.calm(5 * SECOND_US, () => {
      expect(b.directory.processes('worker')).toEqual([WORKER]);
      expect(b.directory.owner('m')).toEqual(epoch);
    });
    expect(a.directory.registered('wk-1') && a.directory.holds('m', 'co-1')).toBe(true);
  });

  test('R11: the last holder takes its lease again at once, above its old epoch', async () => {
    const { directory } = await start();
    const epoch = await calmly(directory.acquire('m', 'co-1', 41));
    await world.wipe();
    expect((await calmly(directory.acquire('m', 'co-1')))?.number).toBeGreaterThan(epoch?.number ?? 0);
  });

  test('R11: until the grace ends, a free lease goes to its last holder only', async () => {
    const [a, b] = [await start(), await start()];
    const epoch = await calmly(a.directory.acquire('m', 'co-1'));
    await world.calm(SECOND_US);
    a.isPaused = true;
    await world.wipe();
    await world.calm(SECOND_US);
    // Not even to one that never knew the former run.
    const fresh = await start();
    for (const { directory } of [b, fresh]) expect(await calmly(directory.acquire('m', 'co-2'))).toBeUndefined();
    expect(b.directory.owner('m')).toEqual(epoch);
    await world.calm(SECOND_US);
    a.isPaused = false;
    await world.calm(SECOND_US);
    expect(a.directory.holds('m', 'co-1')).toBe(true);
    expect(fresh.directory.owner('m')?.number).toBeGreaterThan(epoch?.number ?? 0);
  });

  test('R11: after it, a lease whose holder did not come back is anyone’s, and the holder is gone', async () => {
    const [a, b] = [await start(), await start()];
    const epoch = await calmly(a.directory.acquire('m', 'co-1'));
    await world.calm(SECOND_US);
    a.isPaused = true;
    await world.wipe();
    await world.calm(TIMING.worker_registration_ms * 1000 + SECOND_US);
    expect(b.directory.owner('m')).toBeUndefined();
    const next = await calmly(b.directory.acquire('m', 'co-2'));
    expect(next?.number).toBeGreaterThan(epoch?.number ?? 0);
    a.isPaused = false;
    await world.calm(SECOND_US);
    expect(a.directory.holds('m', 'co-1')).toBe(false);
    expect(a.directory.owner('m')).toEqual(next);
  });
});

describe('R39: values', () => {
  const GRACE_US = Math.max(TIMING.lease_ms, TIMING.worker_registration_ms) * 1000;

  /** Two processes, registered, of which the first has set `a` twice. */
  async function sharing() {
    const [a, b] = [await start(), await start()];
    await calmly(a.directory.register({ id: 'gw-1', role: 'gateway', draining: false }));
    await calmly(b.directory.register({ id: 'gw-2', role: 'gateway', draining: false }));
    await calmly(a.directory.setValue('a', 'one'));
    await calmly(a.directory.setValue('a', 'two'));
    await world.calm(SECOND_US);
    expect(b.directory.value('a')).toEqual({ text: 'two', version: 2 });
    return [a, b] as const;
  }

  test.each(['restart', 'wipe'] as const)('outlive a %s, by any process that knows them', async (fault) => {
    const [a, b] = await sharing();
    // Who set it does not come back before the end.
    a.isPaused = true;
    await world[fault]();
    await world.calm(GRACE_US + 2 * SECOND_US, () => {
      expect(b.directory.value('a')).toEqual({ text: 'two', version: 2 });
    });
    const fresh = await start();
    expect(fresh.directory.value('a')).toEqual({ text: 'two', version: 2 });
    a.isPaused = false;
    await world.calm(SECOND_US);
    expect(a.directory.value('a')).toEqual({ text: 'two', version: 2 });
  });

  test('of two that were known, the later one comes back to a Redis that lost both', async () => {
    const [a, b] = await sharing();
    b.isPaused = true;
    await calmly(a.directory.setValue('a', 'three'));
    await world.wipe();
    b.isPaused = false;
    await world.calm(2 * SECOND_US);
    for (const { directory } of [a, b]) expect(directory.value('a')).toEqual({ text: 'three', version: 3 });
  });

  test('a later one than a Redis has that lost the last writes stays', async () => {
    const [a, b] = await sharing();
    // As after a failover to a replica that had not got the second.
    await client.hset('directoryValues', 'a', 'one');
    await client.hset('directoryValueVersions', 'a', '1 1');
    await world.restart();
    await world.calm(2 * SECOND_US, () => {
      expect(a.directory.value('a')).toEqual({ text: 'two', version: 2 });
    });
    expect(b.directory.value('a')).toEqual({ text: 'two', version: 2 });
    expect(await client.hget('directoryValues', 'a')).toBe('two');
  });

  test('set right after a loss of data it is above what was known, and is kept', async () => {
    const [a, b] = await sharing();
    await world.wipe();
    expect(await calmly(b.directory.setValue('a', 'three', 2))).toEqual({ text: 'three', version: 3 });
    await world.calm(2 * SECOND_US);
    for (const { directory } of [a, b]) expect(directory.value('a')).toEqual({ text: 'three', version: 3 });
  });

  test('of two that set it at once on what they know, one is refused and knows why', async () => {
    const [a, b] = await sharing();
    const sets = [a.directory.setValue('a', 'of a', 2), b.directory.setValue('a', 'of b', 2)];
    const ends = await calmly(Promise.all(sets));
    expect(ends.filter((end) => end !== undefined)).toHaveLength(1);
    for (const { directory } of [a, b]) expect([directory.value('a')]).toEqual(ends.filter((end) => end !== undefined));
  });

  test('end with the last process, also with one that dies', async () => {
    const [a, b] = await sharing();
    a.isPaused = true;
    await calmly(b.directory.leave('gw-2'));
    expect(b.directory.value('a')).toBeDefined();
    await world.calm(TIMING.registration_ms * 1000 + SECOND_US);
    expect(b.directory.value('a')).toBeUndefined();
    const fresh = await start();
    expect(fresh.directory.value('a')).toBeUndefined();
  });
});

type Contender = ReturnType<typeof contender>;

/** One contender: takes the lease when it has not got it, sometimes gives it back. */
function contender(process: WorldProcess, id: string) {
  const numbers: number[] = [];
  let isAsking = false;
  return {
    id,
    process,
    numbers,
    holds: () => process.directory.holds('m', id),
    act(random: Random) {
      if (process.isPaused || isAsking) return;
      if (process.directory.holds('m', id)) {
        if (random.next() < 0.2) process.directory.release('m', id).catch(() => {});
        return;
      }
      isAsking = true;
      process.directory
        .acquire('m', id)
        .then((epoch) => {
          if (epoch !== undefined) numbers.push(epoch.number);
        })
        .catch(() => {})
        .finally(() => {
          isAsking = false;
        });
    },
  };
}

/** Runs two contenders through every fault, calling `check` after each step, then without faults. */
async function contend(seed: number, wipes: boolean, check: (contenders: readonly Contender[]) => void) {
  await client.flushall();
  const random = seededRandom(seed);
  world = createWorld(client, TIMING, random);
  const [a, b] = [contender(await start(), 'co-1'), contender(await start(), 'co-2')];
  for (let step = 0; step < STEPS; step++) {
    const one = random.next() < 0.5 ? a : b;
    const dice = random.next();
    if (dice < 0.3) world.advance(random.next() ** 4 * 1.5 * SECOND_US);
    else if (dice < 0.58) await one.process.run();
    else if (dice < 0.86) one.process.answer();
    else if (dice < 0.88) one.process.cut();
    else if (dice < 0.9) await world.runLate();
    else if (dice < 0.92) one.process.isPaused = !one.process.isPaused;
    else if (dice < 0.93 && wipes) await world.wipe();
    else one.act(random);
    await settled();
    check([a, b]);
  }
  for (const { process } of [a, b]) process.isPaused = false;
  await world.calm(8 * SECOND_US, () => a.act({ next: () => 1 }));
  expect(a.holds() || b.holds(), 'nobody holds the lease at last').toBe(true);
  for (const { process } of [a, b]) await process.directory.close();
  return [a, b];
}

const seeds = Array.from({ length: SEEDS }, (_, n) => n + 1);

test(`two contenders never both hold a lease by their own clocks (${SEEDS} seeds)`, async () => {
  const owned = new Map<string, number>();
  for (const seed of seeds) {
    const contenders = await contend(seed, false, (both) => {
      const holders = both.filter(({ holds }) => holds()).map(({ id }) => id);
      expect(holders.length, `seed ${seed}`).toBeLessThanOrEqual(1);
      for (const id of holders) owned.set(id, (owned.get(id) ?? 0) + 1);
    });
    const numbers = contenders.flatMap((each) => each.numbers);
    expect(new Set(numbers).size, `seed ${seed}: an epoch came twice`).toBe(numbers.length);
  }
  // Else the test would say nothing.
  for (const id of ['co-1', 'co-2']) expect(owned.get(id)).toBeGreaterThan(SEEDS * 10);
});

test(`also where Redis loses its data, an owner’s epochs only rise (${SEEDS} seeds)`, async () => {
  for (const seed of seeds) {
    for (const { numbers } of await contend(seed, true, () => {})) {
      expect(numbers, `seed ${seed}`).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    }
  }
});
