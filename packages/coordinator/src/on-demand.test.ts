import { evicted } from '@nereid/protocol';
import { describe, expect, test, vi } from 'vitest';
import { batchesOf, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

/** A cluster on demand with a model `m`, one gateway and these workers. */
async function started(config = '', ids: readonly string[] = ['wk-1'], placement: 'all' | 'on-demand' = 'on-demand') {
  const cluster = fakeCluster([fakeModel('m', config)], { placement });
  const workers = await Promise.all(ids.map((id) => cluster.worker(id)));
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  await settle();
  const loads = () => workers.flatMap(({ controls }) => controls.filter(({ action }) => action === 'load')).length;
  /** Until it is with a worker or answered, or a worker that says nothing has been told to load the model. */
  const ask = async () => {
    const id = gateway.infer(fakeRequest('m'));
    const isOut = () => workers.some((worker) => batchesOf(worker).flat().includes(id));
    const isTold = () => workers.some(({ slow }) => slow) && loads() > 0;
    // The model's size is read from the disk.
    await vi.waitFor(async () => {
      await settle();
      expect(isOut() || isTold() || gateway.outcome(id) !== 'none').toBe(true);
    });
    return id;
  };
  const first = (index = 0) => {
    const worker = workers[index];
    if (worker === undefined) throw new Error('no such worker');
    return worker;
  };
  const loadsOf = () => workers.map(({ controls }) => controls.filter(({ action }) => action === 'load').length);
  const state = () => cluster.directory.record('m')?.versions[0];
  return { ...cluster, workers, gateway, ask, first, loadsOf, state };
}

const scaledToZero = 'parameters { key: "nereid.scale_to_zero" value { string_value: "true" } }';
const hasty = 'parameters { key: "nereid.max_wait_ms" value { string_value: "500" } }';

describe('a model on demand', () => {
  test('is ready though no worker holds it, and loaded by one of them when it is asked for', async () => {
    const world = await started('', ['wk-1', 'wk-2']);
    expect([world.state(), world.loadsOf()]).toEqual([{ version: '1', state: 'READY', reason: '' }, [0, 0]]);
    const id = await world.ask();
    const chosen = world.workers.find(({ executes }) => executes.length > 0);
    expect([...world.loadsOf()].sort()).toEqual([0, 1]);
    expect(chosen?.controls.at(-1)).toMatchObject({ action: 'load', onDemand: true });
    chosen?.finish();
    await settle();
    expect(world.gateway.outcome(id)).toBe('ok');
    // The one that holds it has the next one too.
    await world.ask();
    expect([...world.loadsOf()].sort()).toEqual([0, 1]);
    chosen?.finish();
    await settle();
  });

  test('is loaded anew where a batch reaches a worker that has just let it go', async () => {
    const world = await started();
    const worker = world.first();
    await world.ask();
    worker.finish();
    await settle();
    const id = await world.ask();
    worker.giveUp('m', evicted("'other'"));
    worker.giveBack();
    for (let turn = 0; turn < 5; turn++) await settle();
    expect(world.loadsOf()).toEqual([2]);
    expect(batchesOf(worker)).toEqual([[id]]);
    worker.finish();
    await settle();
    expect([world.gateway.outcome(id), world.state()?.state]).toEqual(['ok', 'READY']);
  });

  test('is tried on each worker, and refused with the reason for a while where none can load it', async () => {
    const world = await started('', ['wk-1', 'wk-2']);
    for (const worker of world.workers) worker.failures.set('1', "Unavailable: model 'm' needs 2 GiB on cpu");
    const id = await world.ask();
    expect([...world.loadsOf()].sort()).toEqual([1, 1]);
    expect(world.gateway.outcome(id)).toMatch(/model 'm' version 1 cannot be loaded: .*needs 2 GiB on cpu/);
    expect(world.state()).toMatchObject({ state: 'UNAVAILABLE', reason: "Unavailable: model 'm' needs 2 GiB on cpu" });
    for (const worker of world.workers) worker.failures.clear();
    await world.pass(10_000);
    expect(world.state()?.state).toBe('READY');
    const later = await world.ask();
    for (const worker of world.workers) if (worker.executes.length > 0) worker.finish();
    await settle();
    expect(world.gateway.outcome(later)).toBe('ok');
  });

  test('has its requests wait no longer than their bound, and is then not loaded for nobody', async () => {
    const world = await started(hasty);
    world.first().slow = true;
    const id = await world.ask();
    await world.pass(499);
    expect(world.gateway.outcome(id)).toBe('none');
    await world.pass(1);
    expect(world.gateway.outcome(id)).toMatch(/was not loaded within the 500 ms that a request may wait for it/);
  });

  test('that is pinned is loaded at the start, and told so', async () => {
    const world = await started('parameters { key: "nereid.pin" value { string_value: "true" } }');
    await vi.waitFor(async () => {
      await settle();
      expect(world.first().controls.at(-1)).toMatchObject({ action: 'load', onDemand: true, pinned: true });
    });
  });
});

test('a model scaled to zero waits for a worker, and wants one', async () => {
  const world = await started(scaledToZero, [], 'all');
  expect(world.state()?.state).toBe('READY');
  const wanted = async () => /nereid_desired_workers\{model="m",labels=""\} (\d+)/.exec(await world.metrics())?.[1];
  expect(await wanted()).toBe('0');
  const id = world.gateway.infer(fakeRequest('m'));
  await settle();
  expect(await wanted()).toBe('1');
  const worker = await world.worker('wk-9');
  await settle();
  expect(batchesOf(worker)).toEqual([[id]]);
  worker.finish();
  await settle();
  expect([world.gateway.outcome(id), await wanted()]).toEqual(['ok', '0']);
});
