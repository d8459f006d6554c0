import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually, metric } from './metrics.ts';
import { infer, simpleRequest } from './requests.ts';

const LABELS = { model: 'simple', version: '1' };
const NAMES = [
  'nv_inference_request_success',
  'nv_inference_request_failure',
  'nv_inference_count',
  'nv_inference_exec_count',
  'nv_inference_request_duration_us',
  'nv_inference_queue_duration_us',
  'nv_inference_compute_infer_duration_us',
] as const;

describe.each(MODES)('in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [join(ROOT, 'model_repository')]);
  });
  afterAll(async () => {
    await served.stop();
  });

  async function scrape(): Promise<Record<(typeof NAMES)[number], number>> {
    const values = await Promise.all(NAMES.map(async (name) => [name, await metric(served.metrics, name, LABELS)]));
    return Object.fromEntries(values);
  }

  test('the counters of a model move with its requests', async () => {
    const before = await scrape();
    for (let sent = 0; sent < 3; sent += 1)
      expect((await infer(served.http, 'simple', simpleRequest())).status).toBe(200);
    // Apart, the owner hears of an execution after the client has its answer.
    await eventually('three requests are counted', async () => {
      const now = await scrape();
      return now.nv_inference_request_success - before.nv_inference_request_success >= 3;
    });
    const after = await scrape();
    expect(after.nv_inference_request_success - before.nv_inference_request_success).toBe(3);
    expect(after.nv_inference_count - before.nv_inference_count).toBe(3);
    expect(after.nv_inference_exec_count - before.nv_inference_exec_count).toBe(3);
    expect(after.nv_inference_request_failure - before.nv_inference_request_failure).toBe(0);
    expect(after.nv_inference_request_duration_us).toBeGreaterThan(before.nv_inference_request_duration_us);
    expect(after.nv_inference_compute_infer_duration_us).toBeGreaterThan(before.nv_inference_compute_infer_duration_us);
    expect(after.nv_inference_queue_duration_us).toBeGreaterThanOrEqual(before.nv_inference_queue_duration_us);
  });

  test('the metrics port tells health too', async () => {
    for (const { role, metrics } of served.processes) {
      for (const path of ['/v2/health/live', '/v2/health/ready']) {
        expect((await fetch(`${metrics}${path}`)).status, `${role} ${path}`).toBe(200);
      }
    }
  });
});
