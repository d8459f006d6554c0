import { systemClock, virtualClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import { connectRedis } from './redis-connection.ts';
import { createRedisTotals } from './redis-totals.ts';
import { useRedisLane } from './redis-transport-fixture.ts';

const lane = useRedisLane();
let prefixes = 0;

/** Totals of a prefix of their own. */
function totals() {
  return createRedisTotals({
    connector: lane.connector('test:totals'),
    prefix: `t${++prefixes}`,
    clock: systemClock(),
  });
}

const held = async (kept: ReturnType<typeof totals>, ...models: string[]) =>
  Object.fromEntries(await kept.read(models));

describe('totals in Redis', () => {
  test('are what was written last, of the models that have any', async () => {
    const kept = totals();
    expect(await held(kept, 'm', 'n')).toEqual({});
    await kept.write([
      { model: 'm', epoch: 3, text: '{"a": 1}' },
      { model: 'n', epoch: 4, text: 'n n' },
    ]);
    await kept.write([{ model: 'm', epoch: 3, text: '{"a": 2}' }]);
    expect(await held(kept, 'm', 'n', 'x')).toEqual({ m: '{"a": 2}', n: 'n n' });
    expect(await held(kept)).toEqual({});
  });

  test('of a later epoch are not replaced, nor forgotten, by an earlier one', async () => {
    const kept = totals();
    await kept.write([{ model: 'm', epoch: 12, text: 'late' }]);
    await kept.write([
      { model: 'm', epoch: 9, text: 'early' },
      { model: 'n', epoch: 9, text: 'other' },
    ]);
    await kept.write([{ model: 'm', epoch: 11, text: '' }]);
    expect(await held(kept, 'm', 'n')).toEqual({ m: 'late', n: 'other' });
    await kept.write([{ model: 'm', epoch: 13, text: 'later' }]);
    expect(await held(kept, 'm')).toEqual({ m: 'later' });
  });

  test('are forgotten by an empty text, and leave no key behind', async () => {
    const kept = totals();
    await kept.write([{ model: 'm', epoch: 1, text: 'x' }]);
    await kept.write([{ model: 'm', epoch: 1, text: '' }]);
    expect(await held(kept, 'm')).toEqual({});
    expect(await lane.admin.client.call('KEYS', `t${prefixes}:*`)).toEqual([]);
  });

  test('of very many models go in and come back', async () => {
    const kept = totals();
    const models = Array.from({ length: 2_500 }, (_, index) => `m${index}`);
    await kept.write(models.map((model) => ({ model, epoch: 1, text: `of ${model}` })));
    const all = await kept.read(models);
    expect([all.size, all.get('m0'), all.get('m2499')]).toEqual([2_500, 'of m0', 'of m2499']);
  });
});

test('totals do not wait for ever for a connection that cannot be had', async () => {
  const clock = virtualClock();
  const connector = connectRedis('redis://nowhere', { name: 'test:totals' });
  const silent = {
    ...connector,
    connect: (purpose: string) => ({
      ...connector.connect(purpose),
      isReady: false,
      ready: () => new Promise<void>(() => {}),
    }),
  };
  const kept = createRedisTotals({ connector: silent, prefix: 't', clock });
  const write = kept.write([{ model: 'm', epoch: 1, text: 'x' }]);
  const read = kept.read(['m']);
  clock.advanceUs(2_000_000);
  await expect(write).rejects.toThrow('no answer in time');
  await expect(read).rejects.toThrow('no answer in time');
  expect(clock.liveTimers).toBe(0);
  connector.close();
});
