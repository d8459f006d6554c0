import { LOAD_FAILED } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { describe, expect, test, vi } from 'vitest';
import { createCoordinator } from './coordinator.ts';
import { type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

const states = (cluster: ReturnType<typeof fakeCluster>, model: string) =>
  cluster.directory.record(model)?.versions.map(({ version, state, reason }) => `${version} ${state} ${reason}`.trim());

/** What the worker was told to hold: the versions, of what load where it is not the first, and which it is to keep. */
function toldLoads({ controls }: FakeWorker): string[] {
  return controls.map(({ action, versions, load, keep }) =>
    [
      `${action} ${versions}`,
      ...(load === undefined ? [] : [`of ${load}`]),
      ...(keep === undefined ? [] : [`keep ${keep}`]),
    ].join(' '),
  );
}

describe('loading', () => {
  test('control mode none loads all models; each is published LOADING, then READY', async () => {
    const cluster = fakeCluster([fakeModel('m', '', { versions: ['1', '3'] }), fakeModel('n')]);
    const worker = await cluster.worker();
    const seen = new Set<string>();
    cluster.directory.watch(() => seen.add(`${states(cluster, 'm')}`));
    expect(await cluster.coordinator.start()).toEqual([]);
    await settle();
    expect([...seen]).toEqual(expect.arrayContaining(['1 LOADING,3 LOADING', '1 READY,3 READY']));
    expect(states(cluster, 'n')).toEqual(['1 READY']);
    expect(cluster.directory.owner('m')?.owner).toBe('co-1');
    expect(worker.controls[0]).toMatchObject({
      action: 'load',
      model: 'm',
      versions: ['1', '3'],
      contentHash: 'hash-1',
      config: expect.stringContaining('"javascript"'),
    });
    await cluster.coordinator.stop();
  });

  test("a version that fails: all or nothing, with its reason, in Triton's words", async () => {
    const cluster = fakeCluster([fakeModel('m', '', { versions: ['1', '2'] }), fakeModel('n')]);
    const worker = await cluster.worker();
    worker.failures.set('2', 'Internal: no such thing');
    const text = "load failed for model 'm': version 2 is at UNAVAILABLE state: Internal: no such thing;\n";
    expect(await cluster.coordinator.start()).toEqual([{ model: 'm', error: { code: 'INVALID_ARG', message: text } }]);
    expect(states(cluster, 'm')).toEqual(['1 UNAVAILABLE unloaded', '2 UNAVAILABLE Internal: no such thing']);
    expect(states(cluster, 'n')).toEqual(['1 READY']);
    expect(worker.controls.filter(({ model }) => model === 'm').map(({ action }) => action)).toEqual([
      'load',
      'unload',
    ]);
    await cluster.coordinator.stop();
  });

  test('a failed model loads once it is mended', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit' });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    worker.failures.set('1', 'Internal: broken');
    await expect(cluster.coordinator.loadModel('m')).rejects.toThrow('broken');
    worker.failures.clear();
    expect((await cluster.coordinator.loadModel('m')).versions).toEqual([{ version: '1', state: 'READY', reason: '' }]);
    await cluster.coordinator.stop();
  });

  test('what this version does not serve fails the load by name', async () => {
    const model = fakeModel('m');
    const cluster = fakeCluster([{ ...model, config: { ...model.config, backend: 'python' } }]);
    await cluster.worker();
    const [failure] = await cluster.coordinator.start();
    expect(failure?.error.message).toContain('version 1 is at UNAVAILABLE state: Unsupported: the backend');
    expect(states(cluster, 'm')?.[0]).toContain("UNAVAILABLE Unsupported: the backend 'python'");
    await cluster.coordinator.stop();
  });

  test('a wrong config leaves no record; a file missing behind a right one does', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['bad', 'lost', 'none'] });
    await cluster.worker();
    cluster.files.set('bad', new NereidError('INVALID_ARG', 'bad config'));
    cluster.files.set('lost', new NereidError('UNAVAILABLE', 'unable to find it', { reason: LOAD_FAILED }));
    const failures = await cluster.coordinator.start();
    expect(failures.map(({ model, error }) => `${model}: ${error.code}: ${error.message}`)).toEqual([
      'bad: INVALID_ARG: bad config',
      "lost: INVALID_ARG: load failed for model 'lost': version 2 is at UNAVAILABLE state: Unavailable: unable to find it;\n",
      "none: INTERNAL: failed to load 'none'",
    ]);
    expect(cluster.directory.record('bad')).toBeUndefined();
    expect(cluster.directory.owner('bad')).toBeUndefined();
    expect(states(cluster, 'lost')).toEqual(['2 UNAVAILABLE Unavailable: unable to find it']);
    await cluster.coordinator.stop();
    expect(cluster.directory.records()).toEqual([]);
  });

  test('a wrong file does not touch the model that runs', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    await cluster.worker();
    await cluster.coordinator.start();
    cluster.files.set('m', new NereidError('UNAVAILABLE', 'gone', { reason: LOAD_FAILED }));
    await expect(cluster.coordinator.loadModel('m')).rejects.toThrow('gone');
    expect(states(cluster, 'm')).toEqual(['1 READY']);
    await cluster.coordinator.stop();
  });

  test('loading again what has not changed does nothing', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    await cluster.coordinator.loadModel('m');
    expect(worker.controls).toHaveLength(1);
    await cluster.coordinator.stop();
  });

  test('a changed model is loaded beside the one that serves, which ends what it has', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const running = gateway.infer(fakeRequest('m'));
    await settle();
    cluster.files.set('m', fakeModel('m', '', { versions: ['2'], contentHash: 'hash-2' }));
    await cluster.coordinator.loadModel('m');
    expect(states(cluster, 'm')).toEqual(['1 UNLOADING', '2 READY']);
    const next = gateway.infer(fakeRequest('m'));
    await settle();
    expect(worker.executes.map(({ version, load }) => `${version} ${load ?? 0}`)).toEqual(['1 0', '2 1']);
    worker.finish();
    worker.finish();
    await settle();
    expect([gateway.outcome(running), gateway.outcome(next)]).toEqual(['ok', 'ok']);
    expect(states(cluster, 'm')).toEqual(['1 UNAVAILABLE unloaded', '2 READY']);
    expect(toldLoads(worker)).toEqual(['load 1', 'load 1 keep 1', 'load 2 of 1 keep 0', 'load 2 of 1']);
    await cluster.coordinator.stop();
  });

  test('what a changed model cannot be loaded as leaves the one that serves as it is, and says why', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    cluster.files.set('m', fakeModel('m', '', { versions: ['1', '2'], contentHash: 'hash-2' }));
    worker.failures.set('2', 'Internal: broken');
    await expect(cluster.coordinator.loadModel('m')).rejects.toThrow(
      "load failed for model 'm': version 2 is at UNAVAILABLE state: Internal: broken;\n",
    );
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 READY']);
    expect(worker.held('m')).toEqual(['1 0 READY']);
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');

    worker.failures.clear();
    await cluster.coordinator.loadModel('m');
    await settle();
    expect(worker.held('m')).toEqual(['1 2 READY', '2 2 READY']);
    await cluster.coordinator.stop();
  });

  const withInstances = (count: number) =>
    fakeModel('m', `instance_group { count: ${count} kind: KIND_CPU }`, {
      contentHash: `hash-${count}`,
      filesHash: 'files',
    });

  test('other instances of the same files are no new load', async () => {
    const cluster = fakeCluster([withInstances(1)], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const running = gateway.infer(fakeRequest('m'));
    await settle();
    worker.instances = 2;
    cluster.files.set('m', withInstances(2));
    await cluster.coordinator.loadModel('m');
    expect(toldLoads(worker)).toEqual(['load 1', 'load 1']);
    expect(cluster.directory.record('m')).toMatchObject({ contentHash: 'hash-2', versions: [{ state: 'READY' }] });
    worker.finish();
    await settle();
    expect(gateway.outcome(running)).toBe('ok');
    await cluster.coordinator.stop();
  });

  test('other instances that no worker can start leave the model as it is', async () => {
    const cluster = fakeCluster([withInstances(1)], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    worker.unchanged = 'Internal: no room';
    cluster.files.set('m', withInstances(2));
    await expect(cluster.coordinator.loadModel('m')).rejects.toThrow("load failed for model 'm': Internal: no room");
    expect(cluster.directory.record('m')).toMatchObject({ contentHash: 'hash-1', versions: [{ state: 'READY' }] });
    expect(worker.controls.at(-1)?.contentHash).toBe('hash-1');
    await cluster.coordinator.stop();
  });

  test('a request that was checked against the load before is checked once more where that took another', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const more = 'input { name: "C" data_type: TYPE_FP32 dims: [ -1 ] }';
    cluster.files.set('m', fakeModel('m', more, { contentHash: 'hash-2' }));
    await cluster.coordinator.loadModel('m');
    const request = gateway.infer(fakeRequest('m', { shape: [1] }));
    await settle();
    expect(gateway.outcome(request)).toContain("expected 2 inputs but got 1 inputs for model 'm'");
    await cluster.coordinator.stop();
  });

  test('a model that not all workers could load says how many have it', async () => {
    const cluster = fakeCluster([fakeModel('m')]);
    await cluster.worker();
    const other = await cluster.worker('wk-2');
    other.failures.set('1', 'Internal: broken');
    const declines = await cluster.worker('wk-3');
    declines.holds = false;
    await cluster.coordinator.start();
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 READY 1 of 2 workers: Internal: broken']);
    await other.leave();
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 READY']);
    await cluster.coordinator.stop();
  });

  test('a load beside the one that serves waits for every worker', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const other = await cluster.worker('wk-2');
    await cluster.coordinator.start();
    await settle();
    cluster.files.set('m', fakeModel('m', '', { contentHash: 'hash-2' }));
    other.slow = true;
    const loaded = cluster.coordinator.loadModel('m');
    await settle();
    expect(worker.held('m')).toEqual(['1 0 READY', '1 1 READY']);
    expect(cluster.directory.record('m')?.contentHash).toBe('hash-1');
    await other.leave();
    await loaded;
    expect(cluster.directory.record('m')?.contentHash).toBe('hash-2');
    await cluster.coordinator.stop();
  });

  test('in one process, where nobody else can join, a model that no worker takes fails at once', async () => {
    const cluster = fakeCluster([fakeModel('m'), fakeModel('n')]);
    const worker = await cluster.worker();
    worker.holds = false;
    expect((await cluster.coordinator.start()).map(({ error }) => error.message)).toEqual([
      "load failed for model 'm': version 1 is at UNAVAILABLE state: Unavailable: no worker holds the model;\n",
      "load failed for model 'n': version 1 is at UNAVAILABLE state: Unavailable: no worker holds the model;\n",
    ]);
    await cluster.coordinator.stop();
    expect(cluster.clock.liveTimers).toBe(0);
  });

  test('what a worker said before it was told to load is not taken for the answer', async () => {
    const cluster = fakeCluster([fakeModel('m')]);
    const worker = await cluster.worker();
    worker.slow = true;
    const started = cluster.coordinator.start();
    await settle();
    worker.describe('m');
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 LOADING']);
    worker.slow = false;
    await cluster.worker('wk-2');
    await worker.leave();
    expect(await started).toEqual([]);
    await cluster.coordinator.stop();
  });

  test('a model that another coordinator owns is not loaded', async () => {
    const cluster = fakeCluster([fakeModel('m')]);
    await cluster.worker();
    await cluster.directory.acquire('m', 'co-2');
    expect(await cluster.coordinator.start()).toEqual([]);
    await cluster.coordinator.stop();
    expect(cluster.directory.owner('m')?.owner).toBe('co-2');
  });

  test('nor where it is asked for by name', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit' });
    await cluster.worker();
    await cluster.directory.acquire('m', 'co-2');
    await cluster.coordinator.start();
    await expect(cluster.coordinator.loadModel('m')).rejects.toThrow("model 'm' is owned by coordinator co-2");
    await cluster.coordinator.stop();
  });
});

describe('control mode explicit', () => {
  const models = [fakeModel('a'), fakeModel('b')];
  const loaded = (cluster: ReturnType<typeof fakeCluster>) => cluster.directory.records().map(({ name }) => name);

  test.each([
    ['nothing without --load-model', undefined, []],
    ['only the named', ['b'], ['b']],
    ['a name given twice loads once', ['b', 'b'], ['b']],
    ['* alone means all', ['*'], ['a', 'b']],
  ])('%s', async (_rule, loadModels, expected) => {
    const cluster = fakeCluster(models, {
      controlMode: 'explicit',
      ...(loadModels === undefined ? {} : { loadModels }),
    });
    await cluster.worker();
    await cluster.coordinator.start();
    expect(loaded(cluster)).toEqual(expected);
    await cluster.coordinator.stop();
  });

  test('* beside another name is refused', async () => {
    const cluster = fakeCluster(models, { controlMode: 'explicit', loadModels: ['*', 'a'] });
    await expect(cluster.coordinator.start()).rejects.toThrow("Wildcard model name '*' must be the ONLY startup model");
    await cluster.coordinator.stop();
  });

  test('--load-model counts only with explicit', async () => {
    const cluster = fakeCluster(models, { controlMode: 'none', loadModels: ['a'] });
    await cluster.worker();
    await cluster.coordinator.start();
    expect(loaded(cluster)).toEqual(['a', 'b']);
    await cluster.coordinator.stop();
  });

  test('other modes refuse load and unload', async () => {
    const cluster = fakeCluster(models);
    await cluster.worker();
    await cluster.coordinator.start();
    const refusal = {
      code: 'UNAVAILABLE',
      message: 'explicit model load / unload is not allowed if polling is enabled',
    };
    await expect(cluster.coordinator.loadModel('a')).rejects.toMatchObject(refusal);
    await expect(cluster.coordinator.unloadModel('a')).rejects.toMatchObject(refusal);
    await cluster.coordinator.stop();
  });
});

describe('unloading', () => {
  test('what was accepted ends first, new requests are refused, then the workers drop the model', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'], instanceDepth: 1 });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const running = gateway.infer(fakeRequest('m'));
    const queued = gateway.infer(fakeRequest('m'));
    await settle();
    const unloaded = cluster.coordinator.unloadModel('m');
    await settle();
    const late = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(late)).toBe("NOT_FOUND: Request for unknown model: 'm' has no available versions");
    worker.finish();
    await settle();
    worker.finish();
    await unloaded;
    expect([gateway.outcome(running), gateway.outcome(queued)]).toEqual(['ok', 'ok']);
    expect(states(cluster, 'm')).toEqual(['1 UNAVAILABLE unloaded']);
    expect(worker.controls.map(({ action }) => action)).toEqual(['load', 'unload']);
    await cluster.coordinator.stop();
  });

  test('its caller does not wait for ever for a request that does not end; the unload goes on', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const running = gateway.infer(fakeRequest('m'));
    await settle();
    const unloaded = cluster.coordinator.unloadModel('m').then(
      () => 'unloaded',
      (error) => `${error.code}: ${error.message}`,
    );
    await settle();
    await cluster.pass(29_999);
    expect(await Promise.race([unloaded, 'waits'])).toBe('waits');
    await cluster.pass(1);
    expect(await unloaded).toBe(
      "UNAVAILABLE: model 'm' still has requests after 30 s: it is unloaded once they have ended",
    );
    expect(states(cluster, 'm')).toEqual(['1 UNLOADING']);
    worker.finish();
    await settle();
    expect([gateway.outcome(running), states(cluster, 'm')]).toEqual(['ok', ['1 UNAVAILABLE unloaded']]);
    await cluster.coordinator.stop();
    expect(cluster.clock.liveTimers).toBe(0);
  });

  test('an unknown model, or one unloaded already, is no error', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    await cluster.coordinator.unloadModel('x');
    await cluster.coordinator.unloadModel('m');
    await cluster.coordinator.unloadModel('m');
    expect(worker.controls).toHaveLength(2);
    await cluster.coordinator.stop();
  });

  test.each(['unload', 'load'] as const)('one that failed on its way is begun anew by the next %s', async (next) => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    vi.spyOn(cluster.directory, 'publish').mockRejectedValueOnce(new Error('no Redis'));
    await expect(cluster.coordinator.unloadModel('m')).rejects.toThrow('no Redis');
    if (next === 'unload') await cluster.coordinator.unloadModel('m');
    else await cluster.coordinator.loadModel('m');
    const [acts, state] = next === 'unload' ? [[], 'UNAVAILABLE unloaded'] : [['load'], 'READY'];
    expect(worker.controls.map(({ action }) => action)).toEqual(['load', 'unload', ...acts]);
    expect(states(cluster, 'm')).toEqual([`1 ${state}`]);
    await cluster.coordinator.stop();
    expect(cluster.clock.liveTimers).toBe(0);
  });

  test('load and unload of one model take turns', async () => {
    const cluster = fakeCluster([fakeModel('m')], { controlMode: 'explicit' });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    await Promise.all([
      cluster.coordinator.loadModel('m'),
      cluster.coordinator.unloadModel('m'),
      cluster.coordinator.loadModel('m'),
    ]);
    expect(worker.controls.map(({ action }) => action)).toEqual(['load', 'unload', 'load']);
    expect(states(cluster, 'm')).toEqual(['1 READY']);
    await cluster.coordinator.stop();
  });
});

describe('workers come and go', () => {
  test('a second worker is told to load and then gets work', async () => {
    const cluster = fakeCluster([fakeModel('m')], { instanceDepth: 1 });
    const first = await cluster.worker('wk-1');
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    gateway.infer(fakeRequest('m'));
    gateway.infer(fakeRequest('m'));
    await settle();
    const second = await cluster.worker('wk-2');
    await settle();
    expect([first.executes.length, second.executes.length]).toEqual([1, 1]);
    first.finish();
    second.finish();
    await settle();
    await cluster.coordinator.stop();
  });

  test('without a worker the version says so, and what waits is refused', async () => {
    const cluster = fakeCluster([fakeModel('m')], { instanceDepth: 1 });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    worker.setReady('m', false);
    const queued = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(queued)).toBe('none');
    await worker.leave();
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 UNAVAILABLE Unavailable: no worker holds the model']);
    const refusal = "UNAVAILABLE: Request for unknown model: 'm' version 1 is not at ready state";
    expect(gateway.outcome(queued)).toBe(refusal);
    await cluster.worker('wk-2');
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 READY']);
    await cluster.coordinator.stop();
  });

  test('a version that its worker gives up is published with the reason', async () => {
    const cluster = fakeCluster([fakeModel('m')]);
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    worker.giveUp('m', 'Internal: died too often');
    await settle();
    expect(states(cluster, 'm')).toEqual(['1 UNAVAILABLE Internal: died too often']);
    await cluster.coordinator.stop();
  });

  test('R4: refused for a higher epoch, the owner goes above it and sends again', async () => {
    const cluster = fakeCluster([fakeModel('m')]);
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    worker.refuse({ number: 40, owner: 'co-0' });
    await settle();
    expect(cluster.directory.owner('m')).toEqual({ number: 41, owner: 'co-1' });
    expect(worker.executes.map(({ epoch }) => epoch.number)).toEqual([41]);
    worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
    await cluster.coordinator.stop();
  });
});

describe('stopping', () => {
  test('accepted requests end, new ones are refused, nothing is left', async () => {
    const cluster = fakeCluster([fakeModel('m')], { instanceDepth: 1 });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const running = gateway.infer(fakeRequest('m'));
    const queued = gateway.infer(fakeRequest('m'), { msLeft: 60_000 });
    await settle();
    const stopped = cluster.coordinator.stop();
    const late = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(late)).toBe(
      'UNAVAILABLE: Server is stopping, scheduler for model has stopped accepting new inference requests',
    );
    worker.finish();
    await settle();
    worker.finish();
    await stopped;
    expect([gateway.outcome(running), gateway.outcome(queued)]).toEqual(['ok', 'ok']);
    expect(worker.controls.map(({ action }) => action)).toEqual(['load', 'unload']);
    expect(cluster.directory.records()).toEqual([]);
    expect(cluster.directory.owner('m')).toBeUndefined();
    expect(cluster.directory.processes('coordinator')).toEqual([]);
    expect(cluster.coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
    expect(cluster.clock.liveTimers).toBe(0);
    expect(await cluster.metrics()).not.toContain('nv_inference');
  });

  test('past its deadline what is queued is refused and the rest left to the worker', async () => {
    const cluster = fakeCluster([fakeModel('m')], { instanceDepth: 1 });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    gateway.infer(fakeRequest('m'));
    const queued = gateway.infer(fakeRequest('m'));
    await settle();
    const stopped = cluster.coordinator.stop(1_000);
    await cluster.pass(999);
    expect(gateway.outcome(queued)).toBe('none');
    await cluster.pass(1);
    await stopped;
    expect(gateway.outcome(queued)).toContain('Server is stopping');
    expect(worker.controls.at(-1)?.action).toBe('unload');
    expect(cluster.clock.liveTimers).toBe(0);
    expect(cluster.coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
  });

  test('while models are still loading', async () => {
    const cluster = fakeCluster([fakeModel('m'), fakeModel('n')]);
    const worker = await cluster.worker();
    worker.slow = true;
    const started = cluster.coordinator.start();
    await settle();
    const stopped = cluster.coordinator.stop();
    await settle();
    await worker.leave();
    await stopped;
    expect((await started).map(({ error }) => error.code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
    expect(cluster.directory.records()).toEqual([]);
    expect(cluster.directory.owner('m')).toBeUndefined();
    expect(cluster.clock.liveTimers).toBe(0);
  });

  test('before it was started, and twice', async () => {
    const cluster = fakeCluster([]);
    await cluster.coordinator.stop();
    await cluster.coordinator.stop();
    await expect(
      createCoordinator({ ...cluster, id: 'co-9', options: { controlMode: 'explicit' } }).loadModel('m'),
    ).rejects.toThrow('not running');
  });
});
