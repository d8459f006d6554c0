import { describe, expect, test } from 'vitest';
import { idsOf, ownerOf, startedCluster, unstartedCluster, versionOf } from './fake-apart.ts';
import { fakeModel, fakeRequest, settle } from './fake-cluster.ts';

describe('workers', () => {
  test('R38: a draining one ends what it has and gets nothing more', async () => {
    const world = await startedCluster();
    const second = await world.addWorker('wk-2');
    await settle();
    const gateway = world.gateway();
    const first = gateway.infer(fakeRequest('m'));
    await settle();
    await world.worker.drain();
    const rest = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'))];
    await settle();
    expect([idsOf(world.worker), idsOf(second)]).toEqual([[first], [rest[0]]]);
    world.worker.finish();
    second.finish();
    await settle();
    expect([idsOf(world.worker), idsOf(second)]).toEqual([[], [rest[1]]]);
    second.finish();
    await settle();
    expect([first, ...rest].map((id) => gateway.outcome(id))).toEqual(['ok', 'ok', 'ok']);
  });

  test('R38: what a draining one gives back runs elsewhere, however often', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    const workers = [world.worker];
    for (const id of ['wk-2', 'wk-3', 'wk-4']) {
      const next = await world.addWorker(id);
      await settle();
      workers.at(-1)?.giveBack();
      workers.push(next);
      await settle();
      expect(idsOf(next)).toEqual([request]);
    }
    workers.at(-1)?.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
  });

  test('R38: what came back is not sent there again until it says what it holds', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.giveBack();
    await settle();
    expect(idsOf(world.worker)).toEqual([]);
    world.worker.describe('m');
    await settle();
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
  });

  test('one that does not take the model is no failure of it', async () => {
    const { made, start } = unstartedCluster();
    const other = await made.worker('wk-1');
    other.holds = false;
    const holder = await made.worker('wk-2');
    expect(await start()).toEqual([]);
    expect(made.directory.record('m')?.versions).toEqual([{ version: '1', state: 'READY', reason: '' }]);
    const gateway = made.gateway();
    gateway.infer(fakeRequest('m'));
    await settle();
    expect([other.executes.length, holder.executes.length]).toEqual([0, 1]);
    holder.finish();
    await settle();
  });

  test('one that takes it and cannot load it does not fail the load where another holds it', async () => {
    const { made, start } = unstartedCluster();
    await made.worker('wk-1');
    const failing = await made.worker('wk-2');
    failing.failures.set('1', 'Internal: broken');
    expect(await start()).toEqual([]);
    expect(versionOf(made)).toMatchObject({ state: 'READY', reason: '1 of 2 workers: Internal: broken' });
  });

  test('nor does one that says nothing', async () => {
    const { made, start } = unstartedCluster();
    const silent = await made.worker('wk-2');
    silent.slow = true;
    await made.worker('wk-1');
    expect(await start()).toEqual([]);
    expect(versionOf(made)).toMatchObject({ state: 'READY' });
  });

  test('the record tells the GPUs that the workers use', async () => {
    const { made, start } = unstartedCluster();
    await made.worker('wk-1');
    const withGpus = await made.worker('wk-2');
    withGpus.suffix = '_gpu1';
    await start();
    expect(made.directory.record('m')?.gpus).toBe(2);
  });

  test('two versions may be ready on different workers', async () => {
    const { made, start } = unstartedCluster([fakeModel('m', '', { versions: ['1', '2'] })]);
    for (const [id, fails] of [
      ['wk-1', '1'],
      ['wk-2', '2'],
    ] as const) {
      const worker = await made.worker(id);
      worker.failures.set(fails, 'Internal: broken');
    }
    expect(await start()).toEqual([]);
    expect(made.directory.record('m')?.versions.map(({ state }) => state)).toEqual(['READY', 'READY']);
  });

  test('what this version does not serve fails the load also without any worker, and no worker changes that', async () => {
    const model = fakeModel('m');
    const { made, start } = unstartedCluster([{ ...model, config: { ...model.config, backend: 'python' } }]);
    expect((await start()).map(({ error }) => error.message)).toEqual([expect.stringContaining('Unsupported')]);
    const worker = await made.worker();
    await settle();
    expect(versionOf(made)?.reason).toContain("Unsupported: the backend 'python'");
    expect(worker.controls).toEqual([]);
  });

  test('where all that take it fail, the load fails', async () => {
    const { made, start } = unstartedCluster();
    for (const id of ['wk-1', 'wk-2']) {
      const worker = await made.worker(id);
      worker.failures.set('1', 'Internal: broken');
    }
    expect((await start()).map(({ error }) => error.message)).toEqual([expect.stringContaining('Internal: broken')]);
  });
});

describe('a model that no worker takes', () => {
  const NOBODY = { state: 'UNAVAILABLE', reason: 'Unavailable: no worker holds the model' };

  test.each([
    ['without any worker', undefined, ''],
    ['with one that takes others', { holds: false }, ''],
    ['with one that has no GPU', { holds: false, lacks: ': no GPUs are available' }, ': no GPUs are available'],
  ])('is no failed start, and is loaded when one comes that does: %s', async (_rule, present, lacks) => {
    const { made, start } = unstartedCluster();
    if (present !== undefined) Object.assign(await made.worker('wk-1'), present);
    expect(await start()).toEqual([]);
    expect(versionOf(made)).toMatchObject({ ...NOBODY, reason: NOBODY.reason + lacks });
    const worker = await made.worker('wk-2');
    await settle();
    expect(versionOf(made)).toMatchObject({ state: 'READY' });
    const gateway = made.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
  });

  test('waits on under another coordinator, also where it was loaded by name', async () => {
    const { made, start, coordinators } = unstartedCluster(undefined, { controlMode: 'explicit', loadModels: ['m'] });
    expect(await start()).toEqual([]);
    const another = made.another('co-2', { controlMode: 'explicit' });
    coordinators.add(another);
    await another.start();
    await made.kill('co-1');
    coordinators.delete(made.coordinator);
    await made.pass(500);
    expect([ownerOf(made), versionOf(made)]).toEqual(['co-2', expect.objectContaining(NOBODY)]);
    await made.worker();
    await settle();
    expect(versionOf(made)).toMatchObject({ state: 'READY' });
  });

  test('what comes for it meanwhile is told that it is not ready, not that it is not there', async () => {
    const { made, start } = unstartedCluster();
    await start();
    const gateway = made.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(request)).toBe(
      "UNAVAILABLE: Request for unknown model: 'm' version 1 is not at ready state",
    );
  });

  test('the coordinator stops at once during the wait', async () => {
    const { made, start } = unstartedCluster();
    await start();
    await made.coordinator.stop();
    expect(made.directory.owner('m')).toBeUndefined();
    expect(made.clock.liveTimers).toBe(0);
  });
});
