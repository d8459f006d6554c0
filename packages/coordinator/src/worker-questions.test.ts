import { describe, expect, test } from 'vitest';
import { idsOf, startedCluster } from './fake-apart.ts';
import { fakeModel, fakeRequest, settle } from './fake-cluster.ts';

describe('R28: the probe', () => {
  test('queues a lost batch again', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    world.loss.of = ({ kind }) => kind === 'execute';
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.loss.of = () => false;
    await world.pass(500);
    expect(idsOf(world.worker)).toEqual([]);
    await world.pass(1_000);
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
  });

  test('fails a request whose batch is lost twice', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    world.loss.of = ({ kind }) => kind === 'execute';
    const request = gateway.infer(fakeRequest('m'));
    for (let half = 0; half < 6; half++) await world.pass(500);
    expect(gateway.outcome(request)).toBe(
      'UNAVAILABLE: the instance that ran the request was lost twice; try again later',
    );
  });

  test('frees the place of a batch whose done was lost, first for that batch', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    const next = gateway.infer(fakeRequest('m'));
    await settle();
    world.loss.of = ({ kind }) => kind === 'done';
    world.worker.finish();
    await settle();
    world.loss.of = () => false;
    expect([gateway.outcome(request), idsOf(world.worker)]).toEqual(['ok', []]);
    for (let half = 0; half < 3; half++) await world.pass(500);
    // It cannot be told from one that never came.
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(idsOf(world.worker)).toEqual([next]);
    world.worker.finish();
    await settle();
  });

  test('leaves alone what still runs, and what was sent after the question', async () => {
    const world = await startedCluster([fakeModel('m')], { instanceDepth: 2 });
    const gateway = world.gateway();
    const first = gateway.infer(fakeRequest('m'));
    await settle();
    await world.pass(900);
    // The worker's answer to a question from before will not list this one.
    let sent: string | undefined;
    world.loss.of = ({ kind }) => {
      if (kind === 'described') sent ??= gateway.infer(fakeRequest('m'));
      return false;
    };
    await world.pass(600);
    for (let half = 0; half < 6; half++) await world.pass(500);
    expect(idsOf(world.worker)).toEqual([first, sent]);
    world.worker.finish();
    world.worker.finish();
    await settle();
    expect(world.coordinator.counts.running).toBe(0);
  });

  test('asks each worker now and then, and tells it again what it has not heard', async () => {
    const world = await startedCluster();
    world.loss.of = ({ kind }) => kind === 'control';
    const second = await world.addWorker('wk-2');
    await settle();
    expect(second.controls).toEqual([]);
    world.loss.of = () => false;
    await world.pass(500);
    expect(second.controls.map(({ action }) => action)).toEqual(['load']);
    await world.pass(500);
    const gateway = world.gateway();
    for (let n = 0; n < 2; n++) gateway.infer(fakeRequest('m'));
    await settle();
    expect([world.worker.executes.length, second.executes.length]).toEqual([1, 1]);
    world.worker.finish();
    second.finish();
    await settle();
  });

  test.each([
    ['has not heard of the present files', '', true],
    ['could not load the present files', 'Internal: broken', false],
  ])('does not believe a worker that holds other files: it %s', async (_rule, reason, toldAgain) => {
    const world = await startedCluster([fakeModel('m')], { instanceDepth: 1 });
    world.loss.of = ({ kind }, to) => to === 'wk-2' && (kind === 'control' || kind === 'describe');
    const second = await world.addWorker('wk-2');
    second.had('m', 'hash-0', reason);
    await settle();
    world.loss.of = () => false;
    // Asked again, since it has not answered.
    await world.pass(1_000);
    const gateway = world.gateway();
    for (let n = 0; n < 2; n++) gateway.infer(fakeRequest('m'));
    await settle();
    expect([world.worker.executes.length, second.executes.length, second.controls.length]).toEqual([1, 0, 0]);
    for (let half = 0; half < 3; half++) await world.pass(500);
    expect([second.executes.length, second.controls.length]).toEqual(toldAgain ? [1, 1] : [0, 0]);
    for (let n = 0; n < 2; n++) {
      for (const worker of [world.worker, second]) if (worker.executes.length > 0) worker.finish();
      await settle();
    }
    expect(world.coordinator.counts.running).toBe(0);
  });

  test('lets a load and an unload end whose messages were lost', async () => {
    const world = await startedCluster([fakeModel('m')], { controlMode: 'explicit' });
    world.loss.of = ({ kind }) => kind === 'control' || kind === 'described';
    const loaded = world.coordinator.loadModel('m');
    await world.pass(1_000);
    world.loss.of = () => false;
    for (let half = 0; half < 4; half++) await world.pass(500);
    expect((await loaded).versions[0]?.state).toBe('READY');
    world.loss.of = ({ kind }) => kind === 'control';
    const unloaded = world.coordinator.unloadModel('m');
    await world.pass(1_000);
    world.loss.of = () => false;
    for (let half = 0; half < 4; half++) await world.pass(500);
    await unloaded;
    expect(world.worker.controls.map(({ action }) => action)).toEqual(['load', 'unload']);
  });
});
