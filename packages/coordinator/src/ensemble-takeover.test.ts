import { describe, expect, test } from 'vitest';
import { modelRecordOf, ownerOf, startedCluster } from './fake-apart.ts';
import { fakeModel, fakeRequest, settle } from './fake-cluster.ts';
import { fakeEnsemble } from './fake-ensemble.ts';

// The models are named `m`, of which the world notes the states, and `e`, an ensemble of two steps of it.

const VALUE = { datatype: 'FP32', shape: [4], data: new Uint8Array(16) } as const;
const OUTPUT = { ...VALUE, name: 'B' };
const BLOB = { name: 'B', datatype: 'FP32', shape: [4], blob: { place: 'file', id: 'blob-1', bytes: 16 } } as const;
const request = (more: Parameters<typeof fakeRequest>[1] = {}) =>
  fakeRequest('e', { inputs: [{ ...VALUE, name: 'A' }], ...more });

async function world(options: Parameters<typeof startedCluster>[1] = {}) {
  const made = await startedCluster([fakeEnsemble('e', ['A>m>x', 'x>m>B']), fakeModel('m')], options);
  await made.pass(0);
  made.worker.outputs = [OUTPUT];
  const stateOf = (model: string) =>
    modelRecordOf(model, made)
      .versions.map(({ state }) => state)
      .join();
  const finish = async (...how: Parameters<typeof made.worker.finish>) => {
    made.worker.finish(...how);
    await settle();
  };
  return { ...made, stateOf, finish };
}

describe('another coordinator', () => {
  test('goes on with an ensemble, whose requests are sent again and run anew', async () => {
    const made = await world();
    await made.startAnother('co-2');
    const gateway = made.gateway();
    const id = gateway.infer(request());
    await settle();
    await made.killFirst();
    await made.pass(500);
    expect([ownerOf(made, 'e'), made.stateOf('e')]).toEqual(['co-2', 'READY']);
    // The step that the dead owner had sent ends, for nobody.
    await made.finish();
    gateway.infer(request(), { id, sends: 2 });
    await settle();
    await made.finish();
    await made.finish();
    expect(gateway.outcome(id)).toBe('ok');
  });

  test('has it while the one before tells that the request has left', async () => {
    const made = await world();
    const gateway = made.gateway();
    const id = gateway.infer(request());
    await settle();
    await Promise.all([made.directory.release('e', 'co-1'), made.directory.acquire('e', 'co-9')]);
    await settle();
    gateway.explain(id);
    await settle();
    expect(gateway.explained[0]?.runs.filter((run) => run.id === id)).toMatchObject([{ model: 'e', state: 'left' }]);
  });

  test('does not run a step of a sequence again', async () => {
    const made = await world();
    await made.startAnother('co-2');
    const gateway = made.gateway();
    await made.killFirst();
    await made.pass(500);
    const id = gateway.infer(request({ correlationId: 5n }), { sends: 2 });
    await settle();
    expect(gateway.outcome(id)).toMatch(/^INVALID_ARG: inference request for sequence 5 to model 'e' must specify/);
  });

  test('follows what became of the models meanwhile, and of what waits for them', async () => {
    const made = await world({ controlMode: 'explicit', loadModels: ['e'] });
    await made.coordinator.unloadModel('m');
    await settle();
    expect(modelRecordOf('e', made).awaitsModels).toBe(true);
    const second = await made.startAnother('co-2');
    await made.killFirst();
    await made.pass(500);
    expect([ownerOf(made, 'e'), made.stateOf('e')]).toEqual(['co-2', 'UNAVAILABLE']);
    await second.loadModel('m');
    await settle();
    expect(made.stateOf('e')).toBe('READY');
  });
});

describe('a coordinator that stops', () => {
  test('serves the steps of its runs, and nothing else; then others have its models', async () => {
    const made = await world();
    await made.startAnother('co-2');
    const gateway = made.gateway();
    const id = gateway.infer(request());
    await settle();
    const stopped = made.coordinator.stop();
    await settle();
    gateway.infer(request());
    await settle();
    expect(gateway.stale).toHaveLength(1);
    await made.finish();
    expect([gateway.outcome(id), ownerOf(made, 'm')]).toEqual(['none', 'co-1']);
    await made.finish();
    expect(gateway.outcome(id)).toBe('ok');
    await stopped;
    await made.pass(500);
    expect([ownerOf(made, 'e'), ownerOf(made, 'm'), made.stateOf('e')]).toEqual(['co-2', 'co-2', 'READY']);
    expect(made.directory.processes('caller')).toHaveLength(1);
  });

  test('takes inner calls of others while it waits for what came before', async () => {
    const made = await world();
    await made.startAnother('co-2');
    const gateway = made.gateway();
    const inner = fakeRequest('m', { inputs: [{ ...VALUE, name: 'A' }], inner: { keep: [] } });
    gateway.infer(fakeRequest('m', { inputs: [{ ...VALUE, name: 'A' }] }));
    await settle();
    const stopped = made.coordinator.stop();
    await settle();
    await made.pass(1);
    const taken = gateway.infer(inner);
    await settle();
    await made.finish();
    gateway.infer(inner);
    await settle();
    expect(gateway.stale).toHaveLength(1);
    await made.finish();
    expect(gateway.outcome(taken)).toBe('ok');
    await stopped;
  });
});

describe('tensors that are elsewhere', () => {
  test('pass by name, and last until the run is over', async () => {
    const made = await world();
    made.worker.outputs = [BLOB];
    const gateway = made.gateway();
    const id = gateway.infer(request());
    await settle();
    await made.finish();
    expect(made.worker.executes[0]?.entries[0]?.request.inputs).toEqual([{ ...BLOB, name: 'A' }]);
    expect([...made.tensors.kept].map((tensor) => 'blob' in tensor && tensor.blob.id)).toEqual(['blob-1']);
    made.worker.outputs = [OUTPUT];
    await made.finish();
    expect(gateway.outcome(id)).toBe('ok');
    expect([...made.tensors.kept]).toEqual([]);
  });

  test('R29: where the client’s own are gone its gateway is told, and the run begins anew', async () => {
    const made = await world();
    const gateway = made.gateway();
    const { name: _, ...blob } = BLOB;
    const given = { inputs: [{ ...blob, name: 'A' }] };
    const id = gateway.infer({ ...request(), ...given } as never);
    await settle();
    made.worker.mute = true;
    await made.finish('blob', false);
    made.worker.mute = false;
    expect(gateway.missing).toEqual([id]);
    gateway.infer(request(), { id, sends: 2 });
    await settle();
    await made.finish();
    await made.finish();
    expect(gateway.outcome(id)).toBe('ok');
  });

  test('where one of a step is gone the run begins anew by itself, twice at most', async () => {
    const made = await world();
    made.worker.outputs = [BLOB];
    const gateway = made.gateway();
    const id = gateway.infer(request());
    await settle();
    for (let times = 0; times < 2; times++) {
      await made.finish();
      made.worker.mute = true;
      await made.finish('blob', false);
      made.worker.mute = false;
      expect(made.worker.executes[0]?.entries[0]?.request.inputs).toEqual(request().inputs);
    }
    await made.finish();
    made.worker.mute = true;
    for (let times = 0; times < 5; times++) await made.finish('blob', false);
    expect(gateway.outcome(id)).toMatch(
      /^UNAVAILABLE: in ensemble 'e', large tensors of a request to model 'm' were lost/,
    );
  });

  test('an answer that comes as the run begins anew is of that run no more', async () => {
    const decoupled = fakeModel('d', 'model_transaction_policy { decoupled: true }');
    const made = await startedCluster([fakeEnsemble('e', ['A>d>x', 'x>m>B']), fakeModel('m'), decoupled]);
    await made.pass(0);
    const { worker } = made;
    worker.outputs = [BLOB];
    const gateway = made.gateway();
    const id = gateway.infer(request());
    await settle();
    worker.part(0, 0);
    worker.part(0, 1);
    await settle();
    worker.executes.shift();
    worker.outputs = [OUTPUT];
    worker.finish();
    const mailbox = made.transport.open('wk-2', () => {});
    // Of the second answer's call, in one delivery with the outcome of the first one's.
    mailbox.send('ca-1', { kind: 'missing', model: 'm', id: 'ca-1:3' });
    await settle();
    expect(gateway.outcome(id)).toBe('none');
    expect(worker.cancels.map(({ model }) => model)).toContain('d');
    await mailbox.close();
  });

  test('one that an ensemble among the steps hands on lasts for who takes it from there', async () => {
    const outputs = ['B', 'A'];
    const inner = fakeEnsemble('inner', ['A>m>B'], '', outputs);
    const maps = 'output_map { key: "B" value: "y" } output_map { key: "A" value: "z" }';
    const step = `step { model_name: "inner" model_version: -1 input_map { key: "A" value: "x" } ${maps} }`;
    const outer = fakeEnsemble('e', ['A>m>x', 'y>m>B', 'z>m>C'], step, ['B', 'C']);
    const made = await startedCluster([outer, inner, fakeModel('m')]);
    await made.pass(0);
    made.gateway().infer(request());
    await settle();
    for (const id of ['blob-1', 'blob-2']) {
      made.worker.outputs = [{ ...BLOB, blob: { ...BLOB.blob, id } }];
      made.worker.finish();
      await settle();
    }
    const kept = [...made.tensors.kept].map((tensor) => 'blob' in tensor && tensor.blob.id);
    expect(new Set(kept)).toEqual(new Set(['blob-1', 'blob-2']));
    made.worker.outputs = [OUTPUT];
    for (let left = 0; left < 2; left++) {
      made.worker.finish();
      await settle();
    }
    expect([...made.tensors.kept]).toEqual([]);
  });
});
