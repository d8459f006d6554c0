import { createLocalDirectory, firstRanked } from '@nereid/transport';
import { describe, expect, test } from 'vitest';
import { createLeaseLook, leaseStep } from './lease-look.ts';

describe('rendezvous hashing', () => {
  const ids = ['co-1', 'co-2', 'co-3', 'co-4'];
  const models = Array.from({ length: 400 }, (_, index) => `model-${index}`);

  test('does not depend on the order in which coordinators are listed', () => {
    for (const model of models) expect(firstRanked(model, ids.toReversed())).toBe(firstRanked(model, ids));
  });

  test('spreads models over all coordinators', () => {
    for (const id of ids) {
      const share = models.filter((model) => firstRanked(model, ids) === id).length;
      expect(share).toBeGreaterThan(60);
      expect(share).toBeLessThan(140);
    }
  });

  test('moves only the models of one that goes', () => {
    const rest = ids.slice(1);
    for (const model of models) {
      const first = firstRanked(model, ids);
      if (first !== 'co-1') expect(firstRanked(model, rest)).toBe(first);
    }
  });

  test('has nobody where there is nobody', () => expect(firstRanked('m', [])).toBeUndefined());
});

describe('at a look, a lease', () => {
  const sight = {
    id: 'co-1',
    owner: undefined,
    isFirst: false,
    freeSinceUs: undefined,
    nowUs: 1_000_000,
    look_ms: 250,
  };
  test.each([
    ['of another is left', { owner: 'co-2', isFirst: true }, 'leave'],
    ['that is free is taken by the first-ranked', { isFirst: true }, 'take'],
    ['that is free is left to the first-ranked by others', {}, 'wait'],
    ['that stayed free for less than a look too', { freeSinceUs: 750_001 }, 'wait'],
    ['that stayed free for a look is taken by any', { freeSinceUs: 750_000 }, 'take'],
    ['in its own name that it knows nothing of is taken anew (R2)', { owner: 'co-1' }, 'take'],
  ] as const)('%s', (_rule, change, expected) => {
    expect(leaseStep({ ...sight, ...change })).toBe(expected);
  });

  test('counts as free from the look that first saw it so, anew after it was owned', async () => {
    const directory = createLocalDirectory<unknown>();
    for (const id of ['co-1', 'co-2']) await directory.register({ id, role: 'coordinator', draining: false });
    const look = createLeaseLook({ id: 'co-1', directory, look_ms: 250 });
    const model = Array.from({ length: 50 }, (_, index) => `m${index}`).find(
      (name) => firstRanked(name, ['co-1', 'co-2']) === 'co-2',
    );
    const at = (ms: number) => look.toTake([model ?? ''], ms * 1000);
    expect([at(0), at(249)]).toEqual([[], []]);
    await directory.acquire(model ?? '', 'co-2');
    expect(at(250)).toEqual([]);
    await directory.release(model ?? '', 'co-2');
    expect([at(500), at(749), at(750)]).toEqual([[], [], [model]]);
    await directory.leave('co-2');
    expect(createLeaseLook({ id: 'co-1', directory, look_ms: 250 }).toTake([model ?? ''], 0)).toEqual([model]);
  });
});
