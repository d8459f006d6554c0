import { describe, expect, test } from 'vitest';
import { idsOf, ownerOf, startedCluster, unstartedCluster } from './fake-apart.ts';
import { fakeModel, fakeRequest, settle } from './fake-cluster.ts';

describe('ownership', () => {
  test('each model has one owner, is loaded once, and stays where it is', async () => {
    const models = Array.from({ length: 8 }, (_, index) => fakeModel(`m${index}`));
    const world = await startedCluster(models);
    await world.startAnother('co-2');
    await world.pass(1_000);
    expect(models.map(({ name }) => ownerOf(world, name))).toEqual(models.map(() => 'co-1'));
    expect(world.worker.controls.map(({ model }) => model).sort()).toEqual(models.map(({ name }) => name));
  });

  test('coordinators that start together share the models', async () => {
    const { made, coordinators } = unstartedCluster(Array.from({ length: 16 }, (_, index) => fakeModel(`m${index}`)));
    coordinators.add(made.another('co-2'));
    const worker = await made.worker();
    for (const id of ['co-1', 'co-2']) await made.directory.register({ id, role: 'coordinator', draining: false });
    const failures = Promise.all([...coordinators].map((coordinator) => coordinator.start()));
    await settle();
    expect(await failures).toEqual([[], []]);
    const owners = made.directory.records().map(({ name }) => ownerOf(made, name));
    expect([owners.length, new Set(owners)]).toEqual([16, new Set(['co-1', 'co-2'])]);
    expect(worker.controls).toHaveLength(16);
  });
});

describe('leases', () => {
  test('R5: without a sure lease nothing is sent, and all is dropped without an answer', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    world.unsure.add('m');
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    expect([gateway.outcome(request), idsOf(world.worker), world.coordinator.counts.queued]).toEqual(['none', [], 0]);
    expect(await world.metrics()).not.toContain('nv_inference_request_success{');
    const { number = 0 } = world.directory.owner('m') ?? {};
    world.unsure.clear();
    await world.pass(250);
    expect(world.directory.owner('m')).toEqual({ number: number + 1, owner: 'co-1' });
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    await settle();
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect([...world.states]).toEqual(['READY']);
  });

  test('R5: so it is where the directory names another owner', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    const requests = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'), { msLeft: 60_000 })];
    await settle();
    await Promise.all([world.directory.release('m', 'co-1'), world.directory.acquire('m', 'co-9')]);
    await settle();
    world.worker.finish();
    await world.pass(1_000);
    expect(ownerOf(world)).toBe('co-9');
    expect(idsOf(world.worker)).toEqual([]);
    expect(requests.map((id) => gateway.outcome(id))).toEqual(['ok', 'none']);
    expect(world.coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
  });

  test('a lease that Redis forgot is taken again, and the model goes on', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    await world.directory.release('m', 'co-1');
    await settle();
    expect(ownerOf(world)).toBe('co-1');
    world.worker.finish();
    await settle();
    expect([gateway.outcome(request), world.coordinator.counts.running]).toEqual(['ok', 0]);
  });

  test('R7: after an interruption each model has a new epoch, known to its workers, and its record is published', async () => {
    const world = await startedCluster([fakeModel('m'), fakeModel('n')]);
    const before = ['m', 'n'].map((model) => world.directory.owner(model)?.number ?? 0);
    await world.directory.withdraw('n');
    world.interrupt();
    await settle();
    const after = ['m', 'n'].map((model) => world.directory.owner(model)?.number ?? 0);
    expect(after.map((number, index) => number > (before[index] ?? 0))).toEqual([true, true]);
    expect(world.directory.record('n')?.versions[0]?.state).toBe('READY');
    const gateway = world.gateway();
    gateway.infer(fakeRequest('m'));
    await settle();
    expect(world.worker.executes.map(({ epoch }) => epoch.number)).toEqual([after[0]]);
    world.worker.finish();
    await settle();
  });

  test('R7: a batch that was out is known by its answer, also under the new epoch', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.interrupt();
    await settle();
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    await settle();
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect([gateway.outcome(request), world.coordinator.counts.running]).toEqual(['ok', 0]);
  });

  test('R4: one refusal among many takes one new epoch', async () => {
    const world = await startedCluster([fakeModel('m')], { instanceDepth: 2 });
    const gateway = world.gateway();
    gateway.infer(fakeRequest('m'));
    gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.refuse({ number: 40, owner: 'co-0' });
    world.worker.refuse({ number: 40, owner: 'co-0' });
    await settle();
    expect(world.worker.executes.map(({ epoch }) => epoch.number)).toEqual([41, 41]);
    world.worker.finish();
    world.worker.finish();
    await settle();
  });
});
