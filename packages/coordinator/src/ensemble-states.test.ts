import { parseModelConfig } from '@nereid/config';
import { timing } from '@nereid/transport';
import { describe, expect, test } from 'vitest';
import type { CoordinatorOptions } from './coordinator.ts';
import { fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';
import { fakeEnsemble } from './fake-ensemble.ts';

const E = fakeEnsemble('e', ['A>a>x', 'x>b>B']);
const MODELS = [E, fakeModel('a'), fakeModel('b')];

type Cluster = Pick<ReturnType<typeof fakeCluster>, 'directory'>;

const stateOf = (cluster: Cluster, model: string) => {
  const [version] = cluster.directory.record(model)?.versions ?? [];
  return version === undefined ? 'no record' : `${version.state} ${version.reason}`.trim();
};
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'loaded',
    (error: Error) => error.message.trim(),
  );

async function started(models = MODELS, options: Partial<CoordinatorOptions> = {}) {
  const cluster = fakeCluster(models, options);
  const worker = await cluster.worker();
  const failures = await cluster.coordinator.start();
  return { ...cluster, worker, failures: failures.map(({ model, error }) => `${model}: ${error.message.trim()}`) };
}

describe('at start', () => {
  test('all models load, and no worker is told of the ensemble', async () => {
    const cluster = await started();
    expect(cluster.failures).toEqual([]);
    expect(['e', 'a', 'b'].map((model) => stateOf(cluster, model))).toEqual(['READY', 'READY', 'READY']);
    expect(cluster.worker.controls.map(({ model }) => model).sort()).toEqual(['a', 'b']);
    await cluster.worker.leave();
    await cluster.coordinator.stop();
    expect([cluster.clock.liveTimers, cluster.directory.processes('caller')]).toEqual([0, []]);
  });

  test('ensembles wait without a place among the loads', async () => {
    const many = ['e', 'f', 'g'].map((name) => fakeEnsemble(name, ['A>a>x', 'x>b>B']));
    const cluster = await started([...many, fakeModel('a'), fakeModel('b')], { modelLoadThreads: 1 });
    expect(['e', 'f', 'g'].map((model) => stateOf(cluster, model))).toEqual(['READY', 'READY', 'READY']);
  });

  test('of an ensemble in an ensemble too', async () => {
    const cluster = await started([fakeEnsemble('outer', ['A>e>x', 'x>a>B']), ...MODELS]);
    expect(stateOf(cluster, 'outer')).toBe('READY');
  });

  test('one whose model fails is told so, and does not make the server less ready than the model does', async () => {
    const cluster = fakeCluster(MODELS);
    const worker = await cluster.worker();
    worker.failures.set('1', 'Internal: broken');
    const failures = await cluster.coordinator.start();
    expect(failures.map(({ model }) => model)).toEqual(['a', 'b', 'e']);
    expect(stateOf(cluster, 'e')).toMatch(
      /^UNAVAILABLE Invalid argument: ensemble 'e' depends on 'a' which has no loaded version\. Model 'a' loading failed with error: version 1 is at UNAVAILABLE state: Internal: broken;/,
    );
    expect(cluster.directory.record('e')?.awaitsModels).toBe(true);
  });

  test.each([
    [
      'a model that is not there',
      fakeEnsemble('e', ['A>nope>B']),
      'ensemble e contains models that are not available or ambiguous: nope',
    ],
    ['itself', fakeEnsemble('e', ['A>e>B']), 'circular dependency between ensembles: e -> ... -> e -> e'],
  ])('%s as a step', async (_, ensemble, text) => {
    const cluster = await started([ensemble, fakeModel('a')]);
    expect(cluster.failures).toEqual([
      `e: load failed for model 'e': version 1 is at UNAVAILABLE state: Invalid argument: ${text};`,
    ]);
    expect(stateOf(cluster, 'a')).toBe('READY');
  });

  test('a circle of two is told of both', async () => {
    const cluster = await started([fakeEnsemble('e', ['A>f>B']), fakeEnsemble('f', ['A>e>B'])]);
    expect(cluster.failures).toEqual([
      expect.stringContaining('circular dependency between ensembles: e -> ... -> f -> e'),
      expect.stringContaining('circular dependency between ensembles: f -> ... -> e -> f'),
    ]);
  });
});

describe('on demand', () => {
  const explicit = { controlMode: 'explicit' } as const;

  test('with roles apart, also while the repository cannot be listed', async () => {
    const cluster = fakeCluster(MODELS, explicit, { timing: timing() });
    const worker = await cluster.worker();
    await cluster.coordinator.start();
    cluster.reader.folders = () => Promise.reject(new Error('gone'));
    await cluster.coordinator.loadModel('e');
    expect(stateOf(cluster, 'e')).toBe('READY');
    await worker.leave();
    await cluster.coordinator.stop(0);
  });

  test('its models are loaded with it; its unload leaves them', async () => {
    const cluster = await started(MODELS, explicit);
    await cluster.coordinator.loadModel('e');
    expect(['e', 'a', 'b'].map((model) => stateOf(cluster, model))).toEqual(['READY', 'READY', 'READY']);
    await cluster.coordinator.unloadModel('e');
    expect(['e', 'a', 'b'].map((model) => stateOf(cluster, model))).toEqual(['UNAVAILABLE unloaded', 'READY', 'READY']);
    await cluster.coordinator.loadModel('b');
    expect(stateOf(cluster, 'e')).toBe('UNAVAILABLE unloaded');
  });

  test('so it is with one that is named at start', async () => {
    const cluster = await started(MODELS, { ...explicit, loadModels: ['e'] });
    expect(['e', 'a', 'b'].map((model) => stateOf(cluster, model))).toEqual(['READY', 'READY', 'READY']);
  });

  test('it follows a model that is unloaded, and one that is loaded again', async () => {
    const cluster = await started(MODELS, { ...explicit, loadModels: ['e'] });
    await cluster.coordinator.unloadModel('a');
    await settle();
    expect(stateOf(cluster, 'e')).toBe('UNAVAILABLE unloaded');
    const gateway = cluster.gateway();
    const request = gateway.infer(fakeRequest('e'));
    await settle();
    expect(gateway.outcome(request)).toBe("NOT_FOUND: Request for unknown model: 'e' has no available versions");
    await cluster.coordinator.loadModel('a');
    await settle();
    expect(stateOf(cluster, 'e')).toBe('READY');
  });

  test('one that waits is given up by an unload', async () => {
    const cluster = await started(MODELS, { ...explicit, loadModels: ['e'] });
    await cluster.coordinator.unloadModel('a');
    await cluster.coordinator.unloadModel('e');
    await cluster.coordinator.loadModel('a');
    await settle();
    expect(stateOf(cluster, 'e')).toBe('UNAVAILABLE unloaded');
  });

  test('a model that is loaded with another config takes its ensemble down, and the right one brings it back', async () => {
    const cluster = await started(MODELS, { ...explicit, loadModels: ['e'] });
    const other = parseModelConfig(
      'name: "a" backend: "javascript" input { name: "A" data_type: TYPE_INT32 dims: [ -1 ] } output { name: "B" data_type: TYPE_FP32 dims: [ -1 ] }',
      'c',
    );
    cluster.files.set('a', { ...fakeModel('a'), config: other, contentHash: 'hash-2' });
    await cluster.coordinator.loadModel('a');
    await settle();
    expect(stateOf(cluster, 'e')).toMatch(/^UNAVAILABLE Invalid argument: .*(data type|TYPE_INT32)/);
    expect(await failure(cluster.coordinator.loadModel('e'))).toContain("load failed for model 'e': version 1 is at");
    cluster.files.set('a', fakeModel('a'));
    await cluster.coordinator.loadModel('a');
    await settle();
    expect(stateOf(cluster, 'e')).toBe('READY');
  });

  test('a failed load is made up for by the model', async () => {
    const cluster = await started([E, fakeModel('a')], explicit);
    expect(await failure(cluster.coordinator.loadModel('e'))).toContain('not available or ambiguous: b');
    cluster.files.set('b', fakeModel('b'));
    await cluster.coordinator.loadModel('b');
    await settle();
    expect(stateOf(cluster, 'e')).toBe('READY');
  });

  test('a model that becomes decoupled makes its ensemble decoupled', async () => {
    const cluster = await started(MODELS, { ...explicit, loadModels: ['e'] });
    const decoupled = fakeModel('a', 'model_transaction_policy { decoupled: true }', { contentHash: 'hash-2' });
    cluster.files.set('a', decoupled);
    // Its record changes, and its load ends, while the files of e are read.
    const { read } = cluster.reader;
    cluster.reader.read = async (name) => {
      await settle();
      return read(name);
    };
    await cluster.coordinator.loadModel('a');
    for (let reads = 0; reads < 3; reads++) await settle();
    expect(stateOf(cluster, 'e')).toBe('READY');
    expect(cluster.directory.record('e')?.config.modelTransactionPolicy?.decoupled).toBe(true);
    const tensor = { datatype: 'FP32', shape: [4], data: new Uint8Array(16) } as const;
    cluster.worker.outputs = [{ ...tensor, name: 'B' }];
    const gateway = cluster.gateway();
    const request = gateway.infer(fakeRequest('e', { inputs: [{ ...tensor, name: 'A' }] }));
    await settle();
    cluster.worker.part(0, 0);
    await settle();
    // Of model b; the answers of a go on.
    const [stream] = cluster.worker.executes.splice(0, 1);
    cluster.worker.finish();
    await settle();
    expect([gateway.outcome(request), stream?.model]).toEqual(['ok', 'a']);
  });
});
