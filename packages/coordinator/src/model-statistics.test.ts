import { describe, expect, test } from 'vitest';
import { fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

/** `name{labels} value` lines of a scrape, of what is counted alone, without the model's and version's labels where they are the usual ones, and without buckets. */
async function scrape(cluster: { metrics: () => Promise<string> }): Promise<Record<string, number>> {
  const values: Record<string, number> = {};
  for (const line of (await cluster.metrics()).split('\n')) {
    const match = /^(\w+)\{(.*)\} (\S+)$/.exec(line);
    if (match === null || match[1]?.endsWith('_bucket') || match[1] === 'nereid_desired_workers') continue;
    const labels = (match[2] ?? '').replace('model="m",version="1"', '').replace(/^,/, '');
    values[labels === '' ? `${match[1]}` : `${match[1]} ${labels}`] = Number(match[3]);
  }
  return values;
}

/** Of batches closed for that reason. */
const sizes = (reason: string, count = 0, rows = 0) => ({
  [`nereid_batch_size_sum reason="${reason}"`]: rows,
  [`nereid_batch_size_count reason="${reason}"`]: count,
});
const NO_BATCHES = Object.assign(
  {},
  ...['full', 'preferred', 'delay', 'shape', 'free', 'drain'].map((reason) => sizes(reason)),
);

const COUNTERS_ZERO = {
  nv_inference_request_success: 0,
  'nv_inference_request_failure reason="REJECTED"': 0,
  'nv_inference_request_failure reason="CANCELED"': 0,
  'nv_inference_request_failure reason="BACKEND"': 0,
  'nv_inference_request_failure reason="OTHER"': 0,
  nv_inference_count: 0,
  nv_inference_exec_count: 0,
  nv_inference_request_duration_us: 0,
  nv_inference_queue_duration_us: 0,
  nv_inference_compute_input_duration_us: 0,
  nv_inference_compute_infer_duration_us: 0,
  nv_inference_compute_output_duration_us: 0,
  nv_inference_pending_request_count: 0,
};
const ALL_ZERO = { ...COUNTERS_ZERO, ...sizes('single') };
const BATCHING_ZERO = { ...COUNTERS_ZERO, ...NO_BATCHES };

const BATCHING = 'max_batch_size: 16 dynamic_batching { max_queue_delay_microseconds: 1000 }';

async function serving(config: string, options: Parameters<typeof fakeCluster>[1] = {}) {
  const cluster = fakeCluster([fakeModel('m', config)], options);
  const worker = await cluster.worker();
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  return { ...cluster, worker, gateway };
}

describe('model statistics', () => {
  test('every series is there at 0 from the load on and vanishes at unload', async () => {
    const cluster = await serving(BATCHING, { controlMode: 'explicit', loadModels: ['m'] });
    expect(await scrape(cluster)).toEqual(BATCHING_ZERO);
    await cluster.coordinator.unloadModel('m');
    expect(await scrape(cluster)).toEqual({});
    await cluster.coordinator.stop();
  });

  test('counting starts anew with a load', async () => {
    const cluster = await serving(BATCHING, { controlMode: 'explicit', loadModels: ['m'] });
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    await cluster.pass(1);
    cluster.worker.finish();
    await settle();
    expect((await scrape(cluster)).nv_inference_request_success).toBe(1);
    await cluster.coordinator.unloadModel('m');
    await cluster.coordinator.loadModel('m');
    expect(await scrape(cluster)).toEqual(BATCHING_ZERO);
    await cluster.coordinator.stop();
  });

  test("a batch of 1 and 8 rows: requests 2, inferences 9, executions 1; each adds the batch's whole phases", async () => {
    const cluster = await serving(BATCHING);
    cluster.gateway.infer(fakeRequest('m', { shape: [1, 4] }));
    cluster.gateway.infer(fakeRequest('m', { shape: [8, 4] }));
    await settle();
    await cluster.pass(1);
    await cluster.pass(11);
    cluster.worker.finish();
    await settle();
    expect(await scrape(cluster)).toEqual({
      ...BATCHING_ZERO,
      ...sizes('delay', 1, 9),
      nv_inference_request_success: 2,
      nv_inference_count: 9,
      nv_inference_exec_count: 1,
      nv_inference_request_duration_us: 2 * 12_000,
      // 1000 µs in the queue and 1000.5 µs at the worker, cut to whole ones.
      nv_inference_queue_duration_us: 2 * 2_000,
      // 2000.999 µs.
      nv_inference_compute_input_duration_us: 2 * 2_000,
      nv_inference_compute_infer_duration_us: 2 * 3_000,
      nv_inference_compute_output_duration_us: 2 * 4_000,
    });
    await cluster.coordinator.stop();
  });

  test.each([
    ['a failed execution counts as one, its requests as BACKEND', true, 1],
    ['a batch that never reached the model is no execution', false, 0],
  ])('%s', async (_rule, executed, executions) => {
    const cluster = await serving('');
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    cluster.worker.finish('error', executed);
    await settle();
    expect(await scrape(cluster)).toEqual({
      ...ALL_ZERO,
      'nv_inference_request_failure reason="BACKEND"': 1,
      nv_inference_exec_count: executions,
      ...sizes('single', executions, executions),
    });
    await cluster.coordinator.stop();
  });

  test('a request cancelled at the worker counts as CANCELED', async () => {
    const cluster = await serving('');
    cluster.gateway.infer(fakeRequest('m'));
    await settle();
    cluster.worker.finish('cancelled', false);
    await settle();
    expect(await scrape(cluster)).toEqual({ ...ALL_ZERO, 'nv_inference_request_failure reason="CANCELED"': 1 });
    await cluster.coordinator.stop();
  });

  test('what is refused before it is accepted is not counted', async () => {
    const cluster = await serving('');
    cluster.gateway.infer(fakeRequest('m', { modelVersion: '7' }));
    await settle();
    expect(await scrape(cluster)).toEqual(ALL_ZERO);
    await cluster.coordinator.stop();
  });

  test('pending: queued, or at a worker behind another batch; not what executes', async () => {
    const cluster = await serving('', { instanceDepth: 2 });
    for (let index = 0; index < 5; index++) cluster.gateway.infer(fakeRequest('m'));
    await settle();
    expect((await scrape(cluster)).nv_inference_pending_request_count).toBe(4);
    for (const left of [3, 2, 1, 0]) {
      cluster.worker.finish();
      await settle();
      expect((await scrape(cluster)).nv_inference_pending_request_count).toBe(left);
    }
    cluster.worker.finish();
    await settle();
    await cluster.coordinator.stop();
  });

  const CACHED = 'response_cache { enable: true }';
  const CACHE_ZERO = {
    nv_cache_num_hits_per_model: 0,
    nv_cache_num_misses_per_model: 0,
    nv_cache_hit_duration_per_model: 0,
    nv_cache_miss_duration_per_model: 0,
  };

  test.each([
    ['where there is a cache, from 0', CACHED, true, CACHE_ZERO],
    ['not where there is none', CACHED, false, {}],
    ['not of a model that does not want it', '', true, {}],
  ])('series of the response cache: %s', async (_what, config, responseCache, series) => {
    const cluster = await serving(config, { responseCache });
    expect(await scrape(cluster)).toEqual({ ...ALL_ZERO, ...series });
    await cluster.coordinator.stop();
  });

  test.each([true, false])(
    'what callers tell of their cache; this coordinator knows of it: %s',
    async (responseCache) => {
      const cluster = await serving(CACHED, { responseCache });
      cluster.gateway.cached('m', '1', 3, 2);
      await settle();
      expect(await scrape(cluster)).toEqual({
        ...ALL_ZERO,
        nv_inference_request_success: 3,
        nv_inference_request_duration_us: 3 * 9 + 2 * 3,
        nv_inference_queue_duration_us: 3,
        nv_cache_num_hits_per_model: 3,
        nv_cache_num_misses_per_model: 2,
        nv_cache_hit_duration_per_model: 6,
        nv_cache_miss_duration_per_model: 6,
      });
      await cluster.coordinator.stop();
    },
  );

  test('metric_tags become labels of their model alone; what is no label name is left out', async () => {
    const tags = 'metric_tags { key: "team" value: "vision" } metric_tags { key: "not-a-label" value: "x" }';
    const cluster = fakeCluster([
      fakeModel('m'),
      fakeModel('tagged', `${tags} metric_tags { key: "model" value: "x" }`),
    ]);
    await cluster.worker();
    await cluster.coordinator.start();
    const text = await cluster.metrics();
    expect(text).toContain('nv_inference_count{model="m",version="1"} 0');
    expect(text).toContain('nv_inference_count{model="tagged",version="1",team="vision"} 0');
    expect(text).toContain('nv_inference_request_failure{model="tagged",version="1",team="vision",reason="OTHER"} 0');
    expect(text.match(/# TYPE nv_inference_count counter/g)).toHaveLength(1);
    await cluster.coordinator.stop();
  });

  test("Triton's help texts", async () => {
    const cluster = await serving('');
    const text = await cluster.metrics();
    for (const help of [
      'nv_inference_request_success Number of successful inference requests, all batch sizes',
      'nv_inference_request_failure Number of failed inference requests, all batch sizes',
      'nv_inference_count Number of inferences performed (does not include cached requests)',
      'nv_inference_exec_count Number of model executions performed (does not include cached requests)',
      'nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.',
      'nv_inference_request_duration_us Cumulative inference request duration in microseconds (includes cached requests)',
    ]) {
      expect(text).toContain(`# HELP ${help}\n`);
    }
    await cluster.coordinator.stop();
  });
});
