/** What holds of a version's statistics whatever happens to its requests. */
import type { VersionStatistics } from '@nereid/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type FakeCluster, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

const ROWS_MAX = 4;
const CONFIG = `max_batch_size: ${ROWS_MAX} dynamic_batching { max_queue_delay_microseconds: 2000 }`;

type Step =
  | { readonly type: 'arrive'; readonly rows: number }
  | { readonly type: 'pass'; readonly ms: number }
  | { readonly type: 'cancel'; readonly at: number }
  | { readonly type: 'finish'; readonly result: 'ok' | 'error' | 'cancelled'; readonly executed: boolean };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ type: fc.constant('arrive' as const), rows: fc.integer({ min: 1, max: ROWS_MAX }) }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 20 }) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('cancel' as const), at: fc.nat() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant('finish' as const),
      result: fc.constantFrom('ok', 'error', 'cancelled'),
      executed: fc.boolean(),
    }),
  },
);

test("Triton's invariants", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
      const cluster = fakeCluster([fakeModel('m', CONFIG)], { instanceDepth: 2, queueMax: 6 });
      const worker = await cluster.worker();
      const gateway = cluster.gateway();
      await cluster.coordinator.start();
      const sent: string[] = [];
      let failedRows = 0;
      let before: VersionStatistics | undefined;
      for (const one of steps) {
        if (one.type === 'arrive') sent.push(gateway.infer(fakeRequest('m', { shape: [one.rows, 4] })));
        else if (one.type === 'pass') await cluster.pass(one.ms);
        else if (one.type === 'cancel') gateway.cancel('m', sent[one.at % Math.max(1, sent.length)] ?? 'gw-1:0');
        else if (worker.executes.length > 0) {
          const ran = one.result === 'ok' || one.executed;
          const { entries } = worker.finish(one.result, ran);
          const rows = entries.reduce((sum, { request }) => sum + (request.inputs[0]?.shape[0] ?? 0), 0);
          if (ran && one.result !== 'ok') failedRows += rows;
        }
        await settle();
        const now = await counted(gateway);
        expectInvariants(now, failedRows);
        if (before !== undefined) expectGrown(before, now);
        before = now;
      }
      await stop(cluster, worker);
    }),
    { numRuns: 60 },
  );
});

async function counted(gateway: ReturnType<FakeCluster['gateway']>): Promise<VersionStatistics> {
  gateway.count('m');
  await settle();
  const told = gateway.counted.at(-1)?.versions[0];
  if (told === undefined) throw new Error('nothing is told');
  return told;
}

function expectInvariants({ inference, batches, ...told }: VersionStatistics, failedRows: number): void {
  const { success, queue, computeInput, computeInfer, computeOutput, cacheHit } = inference;
  for (const phase of ['computeInput', 'computeInfer', 'computeOutput'] as const) {
    expect(batches.reduce((sum, batch) => sum + batch[phase].count, 0)).toBe(told.executionCount);
  }
  expect(batches.every(({ batchSize }) => batchSize >= 1 && batchSize <= ROWS_MAX)).toBe(true);
  expect(success.count).toBe(queue.count);
  expect(success.count).toBe(computeInfer.count + cacheHit.count);
  expect([computeInput.count, computeOutput.count]).toEqual([computeInfer.count, computeInfer.count]);
  expect(told.inferenceCount).toBeGreaterThanOrEqual(success.count - cacheHit.count);
  const rows = batches.reduce((sum, batch) => sum + batch.batchSize * batch.computeInfer.count, 0);
  expect(rows).toBe(told.inferenceCount + failedRows);
  expect(told.executionCount).toBeLessThanOrEqual(told.inferenceCount + failedRows);
  expect(success.ns).toBeGreaterThanOrEqual(queue.ns + computeInput.ns + computeInfer.ns + computeOutput.ns);
  expect(Number.isSafeInteger(success.ns) && Number.isSafeInteger(inference.fail.ns)).toBe(true);
}

/** All numbers of the one are in the other, none smaller. */
function expectGrown(before: VersionStatistics, now: VersionStatistics): void {
  for (const name of ['lastInferenceMs', 'inferenceCount', 'executionCount'] as const) {
    expect(now[name]).toBeGreaterThanOrEqual(before[name]);
  }
  for (const [name, { count, ns }] of Object.entries(before.inference)) {
    const grown = now.inference[name as keyof VersionStatistics['inference']];
    expect(grown.count >= count && grown.ns >= ns, name).toBe(true);
  }
}

/** Ends whatever is left, so that nothing waits. */
async function stop(cluster: FakeCluster, worker: Awaited<ReturnType<FakeCluster['worker']>>): Promise<void> {
  const over = cluster.coordinator.stop(0);
  await cluster.pass(1);
  await worker.leave();
  await over;
}
