import { LOAD_FAILED } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { idsOf, modelRecordOf, ownerOf, startedCluster } from './fake-apart.ts';
import { fakeModel, fakeRequest, settle } from './fake-cluster.ts';

describe('takeover', () => {
  test('R9: the record stays READY, requests are taken at once, and the worker is used once it has answered', async () => {
    const world = await startedCluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    world.worker.slow = true;
    await world.killFirst();
    await world.pass(500);
    expect(ownerOf(world)).toBe('co-2');
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    expect([gateway.outcome(request), idsOf(world.worker)]).toEqual(['none', []]);
    world.worker.slow = false;
    await world.pass(1_000);
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
    expect([...world.states]).toEqual(['READY']);
  });

  test('where no worker answers in time the model is what it is', async () => {
    const world = await startedCluster([fakeModel('m')], { takeoverWaitMs: 5_000 });
    await world.startAnother('co-2');
    world.worker.slow = true;
    await world.killFirst();
    await world.pass(0);
    await world.worker.leave();
    await world.pass(4_999);
    expect(world.directory.record('m')?.versions[0]?.state).toBe('READY');
    await world.pass(1);
    expect(world.directory.record('m')?.versions[0]?.state).toBe('UNAVAILABLE');
  });

  test('R26: what still runs is not run twice by a resend, and ends by its own done', async () => {
    const world = await startedCluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    await world.killFirst();
    await world.pass(500);
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    const next = gateway.infer(fakeRequest('m'));
    await settle();
    // Its instance holds one batch at a time, whoever sent it.
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
    expect(idsOf(world.worker)).toEqual([next]);
    world.worker.finish();
    await settle();
  });

  test('R27: the next owner passes on that a stream runs, asks after it each second, and passes its cancel on', async () => {
    const world = await startedCluster([fakeModel('m', 'model_transaction_policy { decoupled: true }')]);
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.streams = [{ id: request, execution: 'wk-1/1' }];
    await world.killFirst();
    await world.pass(500);
    const sign = { kind: 'running', model: 'm', streams: world.worker.streams };
    expect(gateway.running).toEqual([sign]);
    // It has begun, so its gateway does not send it again.
    for (let looks = 0; looks < 6; looks++) await world.pass(500);
    expect(gateway.running.length).toBeGreaterThanOrEqual(3);
    expect(world.worker.cancels).toEqual([]);
    gateway.cancel('m', request);
    await settle();
    expect(world.worker.cancels).toMatchObject([{ id: request, epoch: { owner: 'co-2' } }]);
    world.worker.finish('cancelled');
    await settle();
  });

  test('R26: a copy that was queued before its worker answered is not run either', async () => {
    const world = await startedCluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.slow = true;
    await world.killFirst();
    await world.pass(500);
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    await settle();
    world.worker.slow = false;
    await world.pass(1_000);
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect([gateway.outcome(request), idsOf(world.worker)]).toEqual(['ok', []]);
  });

  test.each(['no longer listed', 'gone'] as const)(
    'R26: what was running at a worker and is %s runs again',
    async (how) => {
      const world = await startedCluster();
      await world.startAnother('co-2');
      const gateway = world.gateway();
      const request = gateway.infer(fakeRequest('m'));
      await settle();
      await world.killFirst();
      await world.pass(500);
      gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
      const other = await world.addWorker('wk-2');
      await settle();
      if (how === 'gone') await world.worker.leave();
      else {
        world.worker.executes.shift();
        world.worker.describe('m');
      }
      await settle();
      const again = [...idsOf(world.worker), ...idsOf(other)];
      expect(again.filter((id) => id === request)).toEqual([request, ...(how === 'gone' ? [request] : [])]);
      (how === 'gone' || idsOf(other).length > 0 ? other : world.worker).finish();
      await settle();
      expect(gateway.outcome(request)).toBe('ok');
    },
  );

  test('other files than those it is served from are loaded as at any reload', async () => {
    const world = await startedCluster();
    world.files.set('m', fakeModel('m', '', { contentHash: 'hash-2' }));
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(500);
    expect(world.directory.record('m')).toMatchObject({ contentHash: 'hash-2', versions: [{ state: 'READY' }] });
    expect(world.worker.held('m')).toEqual(['1 1 READY']);
  });

  test('files that cannot be read do not touch a model that runs', async () => {
    const world = await startedCluster();
    world.files.set('m', new NereidError('UNAVAILABLE', 'gone', { reason: LOAD_FAILED }));
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(500);
    expect([ownerOf(world), [...world.states]]).toEqual(['co-2', ['READY']]);
  });

  test('a model unloaded on purpose stays so, one loaded by request goes on', async () => {
    const world = await startedCluster([fakeModel('m'), fakeModel('n')], {
      controlMode: 'explicit',
      loadModels: ['m'],
    });
    await world.startAnother('co-2');
    await world.coordinator.loadModel('n');
    await world.coordinator.unloadModel('m');
    await world.killFirst();
    await world.pass(500);
    expect([ownerOf(world, 'm'), ownerOf(world, 'n')]).toEqual(['co-2', 'co-2']);
    expect(world.directory.record('m')?.versions).toEqual([{ version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }]);
    expect(world.directory.record('n')?.versions[0]?.state).toBe('READY');
  });

  test('what comes while the lease is being taken waits for it', async () => {
    const world = await startedCluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    // A gateway hears of the new owner before the owner does.
    let sent: string | undefined;
    const stop = world.directory.watch(({ type }) => {
      if (type === 'owner' && ownerOf(world) === 'co-2') sent ??= gateway.infer(fakeRequest('m'));
    });
    await world.killFirst();
    await world.pass(500);
    stop();
    expect(gateway.stale).toEqual([]);
    expect(idsOf(world.worker)).toEqual([sent]);
    world.worker.finish();
    await settle();
  });

  test.each([
    ['that has a record and no owner', true],
    // Redis began anew before anybody took the model over: its gateway still remembers it.
    ['that has neither', false],
  ])('a request for a model %s is handed back, not refused', async (_rule, recorded) => {
    const world = await startedCluster();
    const gateway = world.gateway();
    if (recorded) await world.directory.publish('x', { ...modelRecordOf('m', world), name: 'x' });
    const request = gateway.infer(fakeRequest('x'));
    await settle();
    expect(gateway.outcome(request)).toBe('none');
    expect(gateway.stale).toEqual([{ kind: 'stale', model: 'x', id: request, known: null }]);
  });

  test('batches are told apart by their epoch: both owners count from 1', async () => {
    const world = await startedCluster([fakeModel('m')], { instanceDepth: 2 });
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const old = gateway.infer(fakeRequest('m'));
    await settle();
    await world.killFirst();
    await world.pass(500);
    const own = gateway.infer(fakeRequest('m'));
    await settle();
    expect(world.worker.executes.map(({ batch }) => batch)).toEqual([1, 1]);
    world.worker.finish();
    await settle();
    expect([gateway.outcome(old), gateway.outcome(own)]).toEqual(['ok', 'none']);
    // A copy of the one that still runs is known.
    gateway.infer(fakeRequest('m'), { id: own, sends: 2 });
    await settle();
    expect(idsOf(world.worker)).toEqual([own]);
    world.worker.finish();
    await settle();
  });
});
