import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, clusterOn, flagEnvironment, type StartedProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { type Answer, infer, oneInput } from './requests.ts';

const CLIENTS = 8;
const DELAY_MS = 300;
/** Sleeps 10 ms, then tells the process that it runs in. */
const TELLS_PID = `
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    await setTimeout(10);
    return requests.map(() => ({
      outputs: { VALUE: { datatype: 'INT32', shape: [1], data: new Int32Array([process.pid]) } },
    }));
  }`;

let folder: ModelFolder;
let redis: PrivateRedis;
let cluster: Cluster;
let started: StartedProcess[];

async function start(role: 'gateway' | 'coordinator' | 'worker'): Promise<StartedProcess> {
  const process = await cluster.start(role).started;
  started.push(process);
  return process;
}

/** Base addresses of two gateways, once both know that the models are ready. */
async function startTwoGateways(): Promise<[string, string]> {
  const gateways = await Promise.all([start('gateway'), start('gateway')]);
  const [first = '', second = ''] = gateways.map(({ http }) => http);
  for (const http of [first, second]) await modelReady(http, 'tells_pid');
  return [first, second];
}

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript('tells_pid', TELLS_PID);
  folder.addJavaScript(
    'joins',
    'export const execute = (requests) => requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }));',
    `dynamic_batching { preferred_batch_size: [ 8 ], max_queue_delay_microseconds: ${DELAY_MS * 1000} }`,
    { maxBatchSize: 8 },
  );
});
afterAll(() => {
  folder.remove();
});
beforeEach(async () => {
  started = [];
  redis = await startPrivateRedis();
  cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
});
afterEach(async () => {
  for (const one of started) one.process.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  await redis.stop();
});

test('four requests at each of two gateways make one execution of eight', async () => {
  const [coordinator] = await Promise.all([start('coordinator'), start('worker')]);
  const gateways = await startTwoGateways();
  const values = Array.from({ length: 8 }, (_, index) => index);
  const answers = await Promise.all(
    values.map((value) => infer(gateways[value % 2] ?? '', 'joins', oneInput('VALUE', 'INT32', [1, 1], [value]))),
  );
  expect(answers.map(({ outputs }) => outputs.get('VALUE')?.data)).toEqual(values.map((value) => [value]));
  const count = (name: string) => metric(coordinator.metrics, name, { model: 'joins' });
  await eventually('all are counted', async () => (await count('nv_inference_count')) === 8);
  expect(await count('nv_inference_exec_count')).toBe(1);
});

describe('under load through two gateways', () => {
  /** Asks without pause until `stop`, which gives every answer. */
  function load(gateways: readonly [string, string]) {
    const answers: Answer[] = [];
    let running = true;
    const ask = async (http: string) => {
      while (running) answers.push(await infer(http, 'tells_pid', oneInput('VALUE', 'INT32', [1], [0])));
    };
    const clients = Array.from({ length: CLIENTS }, (_, index) => ask(gateways[index % 2] ?? ''));
    return {
      answers,
      async stop() {
        running = false;
        await Promise.all(clients);
        return answers;
      },
    };
  }
  const pidOf = (answer: Answer) => answer.outputs.get('VALUE')?.data?.[0];

  test('a worker that joins takes its part; one that leaves by SIGTERM fails no request', async () => {
    const [, first] = await Promise.all([start('coordinator'), start('worker')]);
    const running = load(await startTwoGateways());
    await eventually('the first answers', async () => running.answers.length > CLIENTS);

    const second = await start('worker');
    // test/faults/scaling.mjs holds how soon.
    await eventually('the second answers', async () =>
      running.answers.some((answer) => pidOf(answer) === second.process.pid),
    );

    expect((await first.stop()).code).toBe(0);
    const before = running.answers.length;
    await eventually('the second goes on', async () => running.answers.length > before + CLIENTS);
    // Long enough for whatever the first had not given back to be missed.
    await delay(DELAY_MS);
    const answers = await running.stop();
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(new Set(answers.map(pidOf))).toEqual(new Set([first.process.pid, second.process.pid]));
    expect(answers.slice(before + CLIENTS).map(pidOf)).not.toContain(first.process.pid);
  });
});
