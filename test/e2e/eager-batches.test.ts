import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

const CLIENTS = 8;
const ROUNDS = 25;
const LONE_ROUNDS = 5;
const DELAY_US = 300_000;
const RUN = `
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    await setTimeout(10);
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
  }`;
const CONFIG = `dynamic_batching { max_queue_delay_microseconds: ${DELAY_US} }
  parameters { key: "nereid.eager_batch" value: { string_value: "true" } }`;

describe.each(MODES)('nereid.eager_batch, in mode %s', (mode) => {
  const folder = createModelFolder();
  let served: Deployment;

  beforeAll(async () => {
    for (const name of ['lone', 'loop']) folder.addJavaScript(name, RUN, CONFIG, 8);
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    await served.stop();
    folder.remove();
  });

  const ask = (model: string, gateway: number, value: number) =>
    infer(
      served.gateways[gateway % served.gateways.length]?.http ?? '',
      model,
      oneInput('VALUE', 'INT32', [1, 1], [value]),
    );
  const counted = (model: string, name: string, labels: Record<string, string> = {}) =>
    metric(served.metrics, name, { model, ...labels });

  test('a lone client never waits for the delay', async () => {
    for (let round = 0; round < LONE_ROUNDS; round++) {
      const { outputs } = await ask('lone', round, round);
      expect(outputs.get('VALUE')?.data).toEqual([round]);
    }
    await eventually('all are counted', async () => (await counted('lone', 'nv_inference_count')) === LONE_ROUNDS);
    expect(await counted('lone', 'nereid_batch_size_count', { reason: 'alone' })).toBe(LONE_ROUNDS);
  });

  test('8 clients that ask again at once fill batches of 8', async () => {
    const client = async (index: number) => {
      for (let round = 0; round < ROUNDS; round++) {
        const { status } = await ask('loop', index, round);
        expect(status).toBe(200);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
    const requests = () => counted('loop', 'nv_inference_count');
    await eventually('all are counted', async () => (await requests()) === CLIENTS * ROUNDS);
    expect((await requests()) / (await counted('loop', 'nv_inference_exec_count'))).toBeGreaterThanOrEqual(6);
  });
});
