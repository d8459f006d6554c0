import type { QueueStatistics, VersionStatistics } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

async function serving(config = '', options: Parameters<typeof fakeCluster>[1] = {}) {
  const cluster = fakeCluster([fakeModel('m', config, { versions: ['1', '2'] })], options);
  const worker = await cluster.worker();
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  return { ...cluster, worker, gateway };
}

type Serving = Awaited<ReturnType<typeof serving>>;

/** What the owner tells of version 2, which is asked where a request names none. */
async function counted({ gateway }: Serving): Promise<VersionStatistics> {
  const id = gateway.count('m', ['2']);
  await settle();
  const told = gateway.counted.find((message) => message.id === id)?.versions[0];
  if (told === undefined) throw new Error('nothing is told');
  return told;
}

const NONE = { count: 0, ns: 0 };
const IDLE: QueueStatistics = { waiting: 0, running: 0, pending: 0, oldestUs: 0, levels: [], closes: [] };
const FRESH: VersionStatistics = {
  name: 'm',
  version: '2',
  lastInferenceMs: 0,
  inferenceCount: 0,
  executionCount: 0,
  inference: {
    success: NONE,
    fail: NONE,
    queue: NONE,
    computeInput: NONE,
    computeInfer: NONE,
    computeOutput: NONE,
    cacheHit: NONE,
    cacheMiss: NONE,
  },
  responses: [],
  batches: [],
  queue: IDLE,
};
/** Phases of each batch of a fake worker. */
const INPUT_NS = 2_000_999;
const INFER_NS = 3_000_000;
const OUTPUT_NS = 4_000_000;
const COMPUTE = { computeInput: { count: 1, ns: INPUT_NS }, computeInfer: { count: 1, ns: INFER_NS } };

const DECOUPLED = 'model_transaction_policy { decoupled: true }';

describe('what an owner tells', () => {
  test('of a version without requests is 0 throughout', async () => {
    const cluster = await serving();
    expect(await counted(cluster)).toEqual(FRESH);
    await cluster.coordinator.stop();
  });

  test('of requests that callers answered themselves: successes that waited and did not run', async () => {
    const cluster = await serving();
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    cluster.worker.finish();
    await settle();
    const ran = await counted(cluster);
    cluster.gateway.cached('m', '2', 3, 1);
    // Of another version, and of one that there is not.
    cluster.gateway.cached('m', '1', 5, 5);
    cluster.gateway.cached('m', '7', 5, 5);
    await settle();
    expect(await counted(cluster)).toEqual({
      ...ran,
      inference: {
        ...ran.inference,
        success: { count: 4, ns: ran.inference.success.ns + 3 * 9_900 + 3_300 },
        queue: { count: 4, ns: ran.inference.queue.ns + 3 * 1_100 },
        cacheHit: { count: 3, ns: 3 * 2_200 },
        cacheMiss: { count: 1, ns: 3_300 },
      },
    });
    await cluster.coordinator.stop();
  });

  test('of a batch of 1 and 8 rows: requests 2, inferences 9, one execution of 9; nanoseconds uncut', async () => {
    const cluster = await serving('max_batch_size: 16 dynamic_batching { max_queue_delay_microseconds: 1000 }');
    cluster.gateway.infer(fakeRequest('m', { shape: [1, 4] }));
    cluster.gateway.infer(fakeRequest('m', { shape: [8, 4] }));
    await settle();
    await cluster.pass(1);
    await cluster.pass(11);
    cluster.worker.finish();
    await settle();
    expect(await counted(cluster)).toEqual({
      ...FRESH,
      lastInferenceMs: cluster.clock.wallMs(),
      inferenceCount: 9,
      executionCount: 1,
      inference: {
        ...FRESH.inference,
        success: { count: 2, ns: 2 * 12_000_000 },
        queue: { count: 2, ns: 2 * 2_000_500 },
        computeInput: { count: 2, ns: 2 * INPUT_NS },
        computeInfer: { count: 2, ns: 2 * INFER_NS },
        computeOutput: { count: 2, ns: 2 * OUTPUT_NS },
      },
      batches: [{ batchSize: 9, ...COMPUTE, computeOutput: { count: 1, ns: OUTPUT_NS } }],
      queue: { ...IDLE, closes: [{ reason: 'delay', sizes: [{ rows: 9, count: 1 }] }] },
    });
    await cluster.coordinator.stop();
  });

  test('of batches is by size, ascending', async () => {
    const cluster = await serving('max_batch_size: 16');
    for (const rows of [10, 2, 10]) {
      cluster.gateway.infer(fakeRequest('m', { shape: [rows, 4] }));
      await settle();
      cluster.worker.finish();
    }
    await settle();
    const { batches } = await counted(cluster);
    expect(batches.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count])).toEqual([
      [2, 1],
      [10, 2],
    ]);
    await cluster.coordinator.stop();
  });

  test.each([
    ['an execution that failed counts as one, of its size', 'error', true, [[1, 1]]],
    ['a request that was cancelled in a batch that ran was in it', 'cancelled', true, [[1, 1]]],
    ['a batch that never reached the model is none', 'error', false, []],
  ] as const)('%s', async (_rule, result, executed, sizes) => {
    const cluster = await serving();
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    await cluster.pass(7);
    cluster.worker.finish(result, executed);
    await settle();
    const { inference, executionCount, inferenceCount, batches } = await counted(cluster);
    expect(inference.fail).toEqual({ count: 1, ns: 7_000_000 });
    expect(inference.success.count).toBe(0);
    expect([inferenceCount, executionCount]).toEqual([0, executed ? 1 : 0]);
    expect(batches.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count])).toEqual(sizes);
    await cluster.coordinator.stop();
  });

  test('a request that ended in the queue failed after its time there', async () => {
    const cluster = await serving('', { instanceDepth: 1 });
    cluster.gateway.infer(fakeRequest('m'));
    const waiting = cluster.gateway.infer(fakeRequest('m'));
    await settle();
    await cluster.pass(3);
    cluster.gateway.cancel('m', waiting);
    await settle();
    expect((await counted(cluster)).inference.fail).toEqual({ count: 1, ns: 3_000_000 });
    cluster.worker.finish();
    await settle();
    await cluster.coordinator.stop();
  });

  test('of its queue is what waits, what runs, what does not run yet, and how long the oldest has waited', async () => {
    const cluster = await serving('', { instanceDepth: 2 });
    for (const passed of [0, 2, 3, 4]) {
      await cluster.pass(passed);
      cluster.gateway.infer(fakeRequest('m'));
      await settle();
    }
    await cluster.pass(5);
    expect((await counted(cluster)).queue).toEqual({ ...IDLE, waiting: 2, running: 2, pending: 3, oldestUs: 9_000 });
    for (let left = 4; left > 0; left--) {
      cluster.worker.finish();
      await settle();
    }
    expect((await counted(cluster)).queue).toEqual({
      ...IDLE,
      closes: [{ reason: 'single', sizes: [{ rows: 1, count: 4 }] }],
    });
    await cluster.coordinator.stop();
  });

  test.each([
    ['counts with the rows that ran', 'error', true, [{ reason: 'single', sizes: [{ rows: 1, count: 1 }] }]],
    ['that never reached the model does not count', 'error', false, []],
  ] as const)('a closed batch %s', async (_rule, result, executed, closes) => {
    const cluster = await serving();
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    cluster.worker.finish(result, executed);
    await settle();
    expect((await counted(cluster)).queue?.closes).toEqual(closes);
    await cluster.coordinator.stop();
  });

  test('of another version, or model, or under another epoch is nothing', async () => {
    const cluster = await serving();
    const other = cluster.gateway.count('m', ['1', '7']);
    const epoch = { number: 99, owner: 'co-1' };
    cluster.gateway.count('m', ['2'], epoch);
    cluster.gateway.count('unknown', ['2'], epoch);
    await settle();
    expect(cluster.gateway.counted.map(({ id, versions }) => [id, versions.map(({ version }) => version)])).toEqual([
      [other, ['1']],
    ]);
    expect(cluster.gateway.stale.map(({ model, id, known }) => [model, id, known])).toEqual([
      ['m', 'gw-1:c2', cluster.directory.owner('m')],
      ['unknown', 'gw-1:c3', null],
    ]);
    await cluster.coordinator.stop();
  });
});

describe('answers of a decoupled model', () => {
  const finished = async (...how: Parameters<Serving['worker']['finish']>) => {
    const cluster = await serving(DECOUPLED);
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    cluster.worker.finish(...how);
    await settle();
    const { responses } = await counted(cluster);
    await cluster.coordinator.stop();
    return responses;
  };

  test('are counted by their position in the stream, and so is what came in place of one', async () => {
    const responses = await finished('ok', true, {
      answers: [
        { count: 3, inferNs: 300.5, outputNs: 30 },
        { count: 1, inferNs: 100, outputNs: 10 },
      ],
      others: [
        { index: 1, how: 'fail', ns: 7 },
        { index: 1, how: 'cancel', ns: 8 },
        { index: 2, how: 'empty', ns: 9 },
      ],
    });
    expect(responses).toEqual([
      {
        computeInfer: { count: 3, ns: 300 },
        computeOutput: { count: 3, ns: 30 },
        success: { count: 3, ns: 330 },
        fail: NONE,
        emptyResponse: NONE,
        cancel: NONE,
      },
      {
        computeInfer: { count: 2, ns: 107 },
        computeOutput: { count: 1, ns: 10 },
        success: { count: 1, ns: 110 },
        fail: { count: 1, ns: 7 },
        emptyResponse: NONE,
        cancel: { count: 1, ns: 8 },
      },
      {
        computeInfer: { count: 1, ns: 9 },
        computeOutput: NONE,
        success: NONE,
        fail: NONE,
        emptyResponse: { count: 1, ns: 9 },
        cancel: NONE,
      },
    ]);
  });

  test('far on in a stream are not told of one by one', async () => {
    const many = Array.from({ length: 2_000 }, () => ({ count: 1, inferNs: 1, outputNs: 1 }));
    const responses = await finished('ok', true, {
      answers: many,
      others: [{ index: 2_000, how: 'empty', ns: 1 }],
    });
    expect(responses).toHaveLength(1_024);
  });

  test.each([
    ['ok', { success: { count: 1, ns: INFER_NS + OUTPUT_NS }, computeOutput: { count: 1, ns: OUTPUT_NS } }],
    ['error', { fail: { count: 1, ns: INFER_NS }, computeOutput: NONE }],
  ] as const)('that came whole and %s are the first, with the times of the batch', async (result, expected) => {
    expect(await finished(result)).toMatchObject([{ computeInfer: { count: 1, ns: INFER_NS }, ...expected }]);
  });

  test('of any other model are none', async () => {
    const cluster = await serving();
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    cluster.worker.finish();
    await settle();
    expect((await counted(cluster)).responses).toEqual([]);
    await cluster.coordinator.stop();
  });
});
