import type { CarriedOutcome, InferResponse } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { batchesOf, type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';
import { type FakeStep, fakeEnsemble } from './fake-ensemble.ts';

const TENSOR = { name: 'B', datatype: 'FP32', shape: [4], data: new Uint8Array(16).fill(7) } as const;

const request = (more: Parameters<typeof fakeRequest>[1] = {}) =>
  fakeRequest('e', { inputs: [{ ...TENSOR, name: 'A' }], ...more });

async function started(
  steps: readonly FakeStep[],
  more = '',
  outputs?: readonly string[],
  configs: Record<string, string> = {},
) {
  const names = [...new Set(steps.map((step) => step.split('>')[1] ?? ''))];
  const cluster = fakeCluster([
    fakeEnsemble('e', steps, more, outputs),
    ...names.map((name) => fakeModel(name, configs[name])),
  ]);
  const worker = await cluster.worker();
  worker.outputs = [TENSOR];
  worker.instances = 4;
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  return { ...cluster, worker, gateway, addWorker: cluster.worker };
}

/** Models of the batches that the worker holds. */
const runningAt = ({ executes }: FakeWorker) => executes.map(({ model }) => model);
const responseOf = (outcome: CarriedOutcome | undefined): InferResponse<unknown> => {
  if (outcome?.ok !== true) throw new Error('no good outcome');
  return outcome.response;
};
const finish = async (worker: FakeWorker, ...how: Parameters<FakeWorker['finish']>) => {
  worker.finish(...how);
  await settle();
};

describe('a run', () => {
  test('calls step by step, and answers with the sequence parameters', async () => {
    const { coordinator, gateway, worker } = await started(['A>a>x', 'x>b>B']);
    const id = gateway.infer(request({ id: 'mine' }));
    await settle();
    expect(runningAt(worker)).toEqual(['a']);
    await finish(worker);
    expect(runningAt(worker)).toEqual(['b']);
    expect(worker.executes[0]?.entries[0]?.request.inputs).toEqual([{ ...TENSOR, name: 'A' }]);
    await finish(worker);
    const response = responseOf(gateway.outcomes(id)[0]);
    expect(response).toEqual({
      modelName: 'e',
      modelVersion: '1',
      id: 'mine',
      parameters: { sequence_id: 0n, sequence_start: false, sequence_end: false },
      outputs: [TENSOR],
    });
    expect(coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
  });

  test('carries what the client said, and marks its calls', async () => {
    const { gateway, worker } = await started(['A>a>x', 'x>b>B']);
    const said = { id: 'mine', priority: 3n, timeoutUs: 9_000_000n, parameters: { p: 'q' }, trace: '00-0-0-01' };
    const id = gateway.infer(request(said));
    await settle();
    const { inputs, ...rest } = worker.executes[0]?.entries[0]?.request ?? fakeRequest('none');
    expect(rest).toEqual({
      ...said,
      modelName: 'a',
      modelVersion: '',
      correlationId: 0n,
      sequenceStart: false,
      sequenceEnd: false,
      requestedOutputs: ['B'],
      inner: { keep: ['B'], parent: { id, step: 0 } },
    });
    expect(inputs.map(({ name }) => name)).toEqual(['A']);
  });

  test('carries a step of a sequence, with its number', async () => {
    const { gateway, worker } = await started(['A>a>B']);
    const step = { correlationId: 9n, sequenceStart: true, sequenceEnd: false };
    gateway.infer(request(step), { step: 4 });
    await settle();
    expect(worker.executes[0]?.entries[0]?.request).toMatchObject({ ...step, sequenceStep: 4 });
  });

  test('what is left of the time goes to each step', async () => {
    const { gateway, worker, pass } = await started(['A>a>x', 'x>b>B']);
    const id = gateway.infer(request(), { msLeft: 1_200 });
    await settle();
    await pass(300);
    await finish(worker);
    // Nobody takes the second step: its queue drops it once the time is over.
    worker.setReady('b', false);
    await pass(950);
    expect(runningAt(worker)).toEqual(['b']);
    expect(gateway.outcome(id)).toBe('none');
  });

  test('steps that do not need each other run side by side', async () => {
    const { gateway, worker } = await started(['A>a>x', 'A>b>y', 'x>a>B', 'y>b>C'], '', ['B', 'C']);
    const id = gateway.infer(request());
    await settle();
    expect(runningAt(worker)).toEqual(['a', 'b']);
    for (let step = 0; step < 4; step++) await finish(worker);
    expect(responseOf(gateway.outcomes(id)[0]).outputs).toHaveLength(2);
  });

  test('outputs that are not asked for are not given', async () => {
    const { gateway, worker } = await started(['A>a>B', 'B>b>C'], '', ['B', 'C']);
    const id = gateway.infer(request({ requestedOutputs: ['C'] }));
    await settle();
    await finish(worker);
    await finish(worker);
    expect(responseOf(gateway.outcomes(id)[0]).outputs).toEqual([{ ...TENSOR, name: 'C' }]);
  });
});

describe('errors', () => {
  test('a step’s own error is wrapped, with its code', async () => {
    const { gateway, worker } = await started(['A>a>x', 'x>b>B']);
    const id = gateway.infer(request());
    await settle();
    await finish(worker, 'error');
    expect(gateway.outcome(id)).toBe("INTERNAL: in ensemble 'e', model failed");
    expect(runningAt(worker)).toEqual([]);
  });

  test('a step whose worker was lost names its model', async () => {
    const { gateway, worker, addWorker } = await started(['A>a>x', 'x>b>B']);
    const id = gateway.infer(request());
    await settle();
    const second = await addWorker('wk-2');
    await addWorker('wk-3');
    await settle();
    await worker.leave();
    await settle();
    await second.leave();
    await settle();
    expect(gateway.outcome(id)).toBe(
      "UNAVAILABLE: in ensemble 'e', model 'a': the instance that ran the request was lost twice; try again later",
    );
  });

  test('a cancel reaches the running step', async () => {
    const { gateway, worker } = await started(['A>a>x', 'x>b>B']);
    const id = gateway.infer(request());
    await settle();
    gateway.cancel('e', id);
    await settle();
    expect(worker.cancels.map(({ model }) => model)).toEqual(['a']);
    expect(gateway.outcome(id)).toBe('CANCELLED: Request cancelled');
    await finish(worker, 'cancelled');
  });
});

describe('shapes', () => {
  test('a model with batches gets one row of what an ensemble without them has, and the other way round', async () => {
    const { gateway, worker } = await started(['A>a>x', 'x>b>B'], '', ['B'], { a: 'max_batch_size: 8' });
    const id = gateway.infer(request());
    await settle();
    expect(worker.executes[0]?.entries[0]?.request.inputs[0]?.shape).toEqual([1, 4]);
    worker.outputs = [{ ...TENSOR, shape: [1, 4] }];
    await finish(worker);
    expect(worker.executes[0]?.entries[0]?.request.inputs[0]?.shape).toEqual([4]);
    worker.outputs = [TENSOR];
    await finish(worker);
    expect(responseOf(gateway.outcomes(id)[0]).outputs).toEqual([TENSOR]);
  });
});

describe('the bound of max_inflight_requests', () => {
  test('holds for each step over all runs', async () => {
    const { gateway, worker } = await started(['A>a>x', 'x>b>B'], 'max_inflight_requests: 1');
    const ids = [1, 2, 3].map(() => gateway.infer(request()));
    await settle();
    expect(runningAt(worker)).toEqual(['a']);
    await finish(worker);
    expect(runningAt(worker)).toEqual(['a', 'b']);
    for (let step = 0; step < 5; step++) await finish(worker);
    expect(ids.map((id) => gateway.outcome(id))).toEqual(['ok', 'ok', 'ok']);
  });
});

describe('a decoupled step', () => {
  const decoupled = { a: 'model_transaction_policy { decoupled: true }' };

  test('each of its answers goes on by itself, and the end is told', async () => {
    const { gateway, worker } = await started(['A>a>x', 'x>b>B'], '', ['B'], decoupled);
    const id = gateway.infer(request());
    await settle();
    worker.part(0, 0);
    worker.part(0, 1);
    await settle();
    expect(runningAt(worker)).toEqual(['a', 'b', 'b']);
    const [stream] = worker.executes.splice(0, 1);
    await finish(worker);
    await finish(worker);
    expect(gateway.outcomes(id)).toHaveLength(2);
    if (stream !== undefined) worker.executes.push(stream);
    worker.outputs = [];
    worker.part(0, 2, true);
    await settle();
    expect(gateway.outcomes(id).map((outcome) => responseOf(outcome).outputs.length)).toEqual([1, 1, 0]);
  });
});

describe('the bound and a decoupled step', () => {
  test('a run that is cancelled while a call waits gives its places back', async () => {
    const decoupled = { a: 'model_transaction_policy { decoupled: true }' };
    const { gateway, worker } = await started(['A>a>x', 'x>b>B'], 'max_inflight_requests: 1', ['B'], decoupled);
    const id = gateway.infer(request());
    await settle();
    worker.part(0, 0);
    worker.part(0, 1);
    worker.part(0, 2);
    await settle();
    expect(runningAt(worker)).toEqual(['a', 'b']);
    gateway.cancel('e', id);
    await settle();
    await finish(worker, 'cancelled');
    await finish(worker, 'cancelled');
    expect(gateway.outcome(id)).toBe('CANCELLED: Request cancelled');
    gateway.infer(request());
    await settle();
    expect(runningAt(worker)).toEqual(['a']);
  });
});

describe('sequences', () => {
  test('a request that may have run before is not run again', async () => {
    const { gateway, worker } = await started(['A>a>B']);
    const id = gateway.infer(request({ correlationId: 5n, sequenceStart: true }), { sends: 2 });
    await settle();
    expect(gateway.outcome(id)).toMatch(
      /^INVALID_ARG: inference request for sequence 5 to model 'e' must specify the START flag/,
    );
    expect(batchesOf(worker)).toEqual([]);
  });
});
