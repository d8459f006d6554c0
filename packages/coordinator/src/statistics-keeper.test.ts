import type { VersionStatistics } from '@nereid/protocol';
import type { KeptTotals } from '@nereid/transport';
import { describe, expect, test } from 'vitest';
import { closeStatistics, countClose } from './close-counts.ts';
import { ownerOf, startedCluster } from './fake-apart.ts';
import { fakeModel, fakeRequest, settle } from './fake-cluster.ts';
import { addKept, keptText } from './kept-statistics.ts';
import { countCached, countExecution, countFailure, countSuccess, createModelStatistics } from './model-statistics.ts';
import { loadedModel } from './new-model.ts';
import { countResponses } from './response-counts.ts';
import { versionStatistics } from './version-statistics.ts';

/** Totals in memory that can be away. */
function memoryTotals() {
  const kept = new Map<string, { readonly epoch: number; readonly text: string }>();
  const state = { away: false, writes: 0 };
  const answered = () => {
    if (state.away) throw new Error('away');
  };
  const totals: KeptTotals = {
    async read(models) {
      answered();
      return new Map(
        models.flatMap((model) => {
          const found = kept.get(model);
          return found === undefined ? [] : [[model, found.text] as const];
        }),
      );
    },
    async write(all) {
      answered();
      state.writes++;
      for (const { model, epoch, text } of all) {
        if ((kept.get(model)?.epoch ?? 0) > epoch) continue;
        if (text === '') kept.delete(model);
        else kept.set(model, { epoch, text });
      }
    },
  };
  return { totals, kept, state };
}

type World = Pick<Awaited<ReturnType<typeof startedCluster>>, 'directory' | 'killFirst' | 'pass'>;

async function started(options: Parameters<typeof startedCluster>[1] = {}) {
  const memory = memoryTotals();
  const world = await startedCluster([fakeModel('m')], options, { totals: memory.totals });
  const gateway = world.gateway();
  /** Runs requests to their end. */
  const run = async (count: number) => {
    for (let sent = 0; sent < count; sent++) {
      gateway.infer(fakeRequest('m'));
      await settle();
      world.worker.finish();
      await settle();
    }
  };
  /** Successes that the present owner tells; undefined where it does not. */
  const told = async (): Promise<number | undefined> => {
    const id = gateway.count('m');
    await settle();
    return gateway.counted.find((message) => message.id === id)?.versions[0]?.inference.success.count;
  };
  return { ...world, ...memory, gateway, run, told };
}

describe('what has been counted', () => {
  test('goes on at the next owner after a death, as it was kept last', async () => {
    const world = await started();
    await world.startAnother('co-2');
    await world.run(2);
    await world.pass(1_000);
    // Within the second before its death: lost with it.
    await world.run(1);
    await takeOver(world);
    expect(await world.told()).toBe(2);
    await world.run(1);
    expect(await world.told()).toBe(3);
  });

  test('goes on whole where an owner hands its models over', async () => {
    const world = await started();
    await world.startAnother('co-2');
    await world.run(3);
    const over = world.coordinator.stop();
    await world.pass(1);
    await over;
    await world.pass(500);
    expect(ownerOf(world)).toBe('co-2');
    expect(await world.told()).toBe(3);
  });

  test('is not told, and not kept anew, before what an earlier owner kept is known', async () => {
    const world = await started();
    await world.startAnother('co-2');
    await world.run(2);
    await world.pass(1_000);
    world.state.away = true;
    await takeOver(world);
    await world.run(1);
    expect(await world.told()).toBeUndefined();
    await world.pass(1_000);
    expect(world.gateway.stale.at(-1)?.known?.owner).toBe('co-2');
    world.state.away = false;
    await world.pass(1_000);
    expect(await world.told()).toBe(3);
    expect(world.kept.get('m')?.text).toContain('"success":3');
  });

  test('is kept only where it has changed', async () => {
    const world = await started();
    await world.run(1);
    await world.pass(1_000);
    const { writes } = world.state;
    for (let seconds = 0; seconds < 5; seconds++) await world.pass(1_000);
    expect(world.state.writes).toBe(writes);
    await world.run(1);
    await world.pass(1_000);
    expect(world.state.writes).toBe(writes + 1);
  });

  test('is kept again where the place that kept it may have begun anew', async () => {
    const world = await started();
    await world.run(1);
    await world.pass(1_000);
    world.kept.clear();
    world.interrupt();
    await settle();
    expect(world.kept.get('m')?.text).toContain('"success":1');
  });

  test('begins anew with a load, also for who takes over', async () => {
    const world = await started({ controlMode: 'explicit', loadModels: ['m'] });
    await world.startAnother('co-2');
    await world.run(2);
    await world.pass(1_000);
    await world.coordinator.unloadModel('m');
    await settle();
    expect(world.kept.has('m')).toBe(false);
    await world.coordinator.loadModel('m');
    await settle();
    await takeOver(world);
    expect(await world.told()).toBe(0);
  });

  test.each([
    ['of other files', '{"contentHash":"other","versions":{"1":{"success":5}}}', 0],
    ['of no sense', 'nonsense', 0],
    ['of another form', '{"contentHash":"hash-1","versions":{"1":null}}', 0],
    ['of a build that counted less', '{"contentHash":"hash-1","versions":{"1":{"success":5,"inferences":"x"}}}', 5],
  ])('that is kept %s: as much as can be read', async (_rule, text, success) => {
    const world = await started();
    await world.startAnother('co-2');
    await world.pass(1_000);
    world.kept.set('m', { epoch: 1, text });
    await takeOver(world);
    expect(await world.told()).toBe(success);
  });
});

async function takeOver(world: World): Promise<void> {
  await world.killFirst();
  await world.pass(500);
  await settle();
  expect(ownerOf(world)).toBe('co-2');
}

test('all that is counted comes back from its text, added to what is there', () => {
  const timing = { waitNs: 1, inputNs: 2, inferNs: 3, outputNs: 4 };
  const model = () => {
    const made = loadedModel(fakeModel('m'), { number: 1, owner: 'co-1' }, undefined);
    for (const version of made.versions) version.statistics = createModelStatistics();
    return made;
  };
  const statisticsOf = ({ versions }: ReturnType<typeof model>) => {
    const statistics = versions[0]?.statistics;
    if (statistics === undefined) throw new Error('no statistics');
    return statistics;
  };
  const first = model();
  const counts = statisticsOf(first);
  countSuccess(counts, 3, 10, 20, 1_000, timing);
  for (const reason of ['REJECTED', 'CANCELED', 'BACKEND', 'BACKEND', 'OTHER'] as const)
    countFailure(counts, reason, 1, 5);
  const time = { ns: 5_000, us: 5 };
  countCached(counts, {
    kind: 'cached',
    model: 'm',
    epoch: { number: 1, owner: 'co-1' },
    version: '1',
    hits: 2,
    hitRequest: time,
    hitQueue: time,
    hitLookup: time,
    misses: 3,
    miss: time,
  });
  countExecution(counts, 3, timing, 1_234);
  countExecution(counts, 1, timing, 1_235);
  countClose(counts.closes, 'full', 3);
  countClose(counts.closes, 'full', 1, 2);
  countClose(counts.closes, 'drain', 1);
  countResponses(counts.responses, {
    answers: [{ count: 1, inferNs: 5, outputNs: 6 }],
    others: [
      { index: 1, how: 'fail', ns: 7 },
      { index: 1, how: 'empty', ns: 8 },
      { index: 1, how: 'cancel', ns: 9 },
    ],
  });
  const second = model();
  expect(addKept(second, keptText(first))).toBe(true);
  expect(statisticsOf(second)).toEqual(counts);
  const once = versionStatistics('m', '1', counts);
  expect(addKept(second, keptText(first))).toBe(true);
  const twice: VersionStatistics = versionStatistics('m', '1', statisticsOf(second));
  expect(twice.inference.success).toEqual({ count: 6, ns: 2 * once.inference.success.ns });
  expect(twice.inference.fail).toEqual({ count: 10, ns: 2 * once.inference.fail.ns });
  expect(twice.batches.map(({ computeInfer }) => computeInfer.count)).toEqual([2, 2]);
  expect(twice.responses.map(({ computeInfer }) => computeInfer.count)).toEqual([2, 4]);
  expect(closeStatistics(statisticsOf(second).closes)).toEqual([
    {
      reason: 'full',
      sizes: [
        { rows: 1, count: 4 },
        { rows: 3, count: 2 },
      ],
    },
    { reason: 'drain', sizes: [{ rows: 1, count: 2 }] },
  ]);
  expect(twice.lastInferenceMs).toBe(once.lastInferenceMs);
});
