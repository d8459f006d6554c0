import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Queue, QueueEvents } from 'bullmq';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { queueOf } from '../../examples/producers/queue-of.mjs';
import { clusterOn, type Deployment, deploy, flagEnvironment, MODES } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder, linesIn } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { infer, oneInput, SIMPLE_SUM, simpleRequest } from './requests.ts';
import { EXACT_TIMES, limitMs } from './time-limits.ts';

// Bug cases about jobs and about what runs models; each name begins with the case's id.

/** Locks of jobs last half a second. */
const TIME_SCALE = 0.2;
/** Longer than a lock. */
const BLOCK_MS = 1_200;
const HEARTBEAT_MS = 50;
const HEARTBEAT_GAP_MS = 250;
const COMPUTE_MS = EXACT_TIMES ? 2_000 : 600;
const RUNS = EXACT_TIMES ? 200 : 50;
const INSTANCES = 4;
/** `--exit-timeout-secs` is 30 by default: long before it. */
const GRACE_MS = 15_000;
const HEADER_LENGTH = 'Inference-Header-Content-Length';
const FIXTURES = join(ROOT, 'packages', 'backends', 'fixtures');
const RECORDED = join(ROOT, 'test', 'conformance', 'repo', 'onnx');

/** Keeps its thread for so long, and writes down that it ran. */
const blocking = (runs: string) => `
  import { appendFileSync } from 'node:fs';
  export function execute(requests) {
    appendFileSync(${JSON.stringify(runs)}, 'run\\n');
    return requests.map(({ inputs }) => {
      const [ms] = inputs.get('VALUE').data;
      for (const start = performance.now(); performance.now() - start < ms; );
      return { outputs: { VALUE: inputs.get('VALUE') } };
    });
  }`;

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const runs = join(folder.path, 'runs');
  let deployment: Deployment;

  beforeAll(async () => {
    folder.addJavaScript('blocking', blocking(runs));
    folder.addEcho('echo', 'INT32', [-1]);
    cpSync(join(RECORDED, 'identity_fp16'), join(folder.path, 'identity_fp16'), { recursive: true });
    // As version 2 alone.
    cpSync(join(FIXTURES, 'external_weights'), join(folder.path, 'external_weights'), { recursive: true });
    cpSync(join(FIXTURES, 'external_weights', '1'), join(folder.path, 'external_weights', '2'), { recursive: true });
    for (const [name, count] of [
      ['threads', INSTANCES],
      ...Array.from({ length: INSTANCES }, (_, n) => [`more_${n}`, INSTANCES]),
    ] as const) {
      cpSync(join(ROOT, 'model_repository', 'simple'), join(folder.path, String(name)), { recursive: true });
      writeFileSync(join(folder.path, String(name), 'config.pbtxt'), simpleConfig(String(name), Number(count)));
    }
    deployment = await deploy(mode, [folder.path], [`--time-scale=${TIME_SCALE}`]);
  });
  afterAll(async () => {
    for (const { code, output } of await deployment.stop()) expect(code, output).toBe(0);
    folder.remove();
  });

  test('BC-130 a model that keeps its thread for longer than a lock runs its job once', async () => {
    const { name, prefix, connection } = await queueOf(deployment.http, 'blocking');
    const queue = new Queue(name, { connection, prefix });
    const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });
    const told: string[] = [];
    for (const event of ['completed', 'failed', 'stalled'] as const) events.on(event, () => told.push(event));
    try {
      await events.waitUntilReady();
      const job = await queue.add('x', { inputs: [int32(BLOCK_MS)] }, { removeOnComplete: { age: 600 } });
      expect((await job.waitUntilFinished(events, limitMs(5_000))).outputs[0].data).toEqual([BLOCK_MS]);
      expect(await job.getState()).toBe('completed');
      expect(linesIn(runs)).toEqual(['run']);
      expect(told).toEqual(['completed']);
    } finally {
      await Promise.all([queue.close(), events.close()]);
    }
  });

  test('BC-142 what was submitted at one gateway is known to each', async () => {
    const doors = deployment.gateways.map(({ http }) => http);
    const [first] = doors;
    const last = doors.at(-1);
    const results = await Promise.all(
      Array.from({ length: 100 }, async (_, value) => {
        const body = oneInput('INPUT0', 'INT32', [1], [value]);
        const submitted = await fetch(`${first}/v2/models/echo/jobs`, { method: 'POST', body });
        const { id } = (await submitted.json()) as { id: string };
        const status = (await fetch(`${last}/v2/jobs/${id}`)).status;
        const result = await fetch(`${last}/v2/jobs/${id}/result?wait=30s`);
        return [
          submitted.status,
          status,
          ((await result.json()) as { outputs: { data: number[] }[] }).outputs[0]?.data,
        ];
      }),
    );
    expect(results).toEqual(Array.from({ length: 100 }, (_, value) => [202, 200, [value]]));
  });

  test('BC-145 while a model computes, everything else goes on', async () => {
    const computing = infer(deployment.http, 'blocking', JSON.stringify({ inputs: [int32(COMPUTE_MS)] }));
    let isOver = false;
    void computing.finally(() => {
      isOver = true;
    });
    let gapMs = 0;
    for (let last = performance.now(); !isOver; ) {
      expect((await fetch(`${deployment.http}/v2/health/live`)).status).toBe(200);
      gapMs = Math.max(gapMs, performance.now() - last - HEARTBEAT_MS);
      last = performance.now();
      await delay(HEARTBEAT_MS);
    }
    expect((await computing).status).toBe(200);
    expect(gapMs).toBeLessThan(limitMs(HEARTBEAT_GAP_MS));
  });

  test('BC-146 several threads run sessions side by side, one each and several each', async () => {
    const load = (models: readonly string[]) =>
      Promise.all(
        Array.from({ length: INSTANCES }, async (_, index) => {
          for (let run = 0; run < RUNS; run += 1) {
            const { status, outputs } = await infer(
              deployment.http,
              models[index % models.length] ?? '',
              simpleRequest(),
            );
            expect(status).toBe(200);
            expect(outputs.get('OUTPUT0')?.data).toEqual(SIMPLE_SUM);
          }
        }),
      );
    await load(['threads']);
    await load(Array.from({ length: INSTANCES }, (_, index) => `more_${index}`));
  });

  test('BC-148 FP16 keeps each bit', async () => {
    // -0, infinity, a NaN, and the smallest number above 0.
    const values = Uint16Array.of(0x8000, 0x7c00, 0x7e00, 0x0001);
    const shape = [values.length];
    const input = { name: 'INPUT', datatype: 'FP16', shape, parameters: { binary_data_size: values.byteLength } };
    const head = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
    const response = await fetch(`${deployment.http}/v2/models/identity_fp16/infer`, {
      method: 'POST',
      headers: { [HEADER_LENGTH]: `${head.byteLength}` },
      body: Buffer.concat([head, Buffer.from(values.buffer)]),
    });
    const answer = Buffer.from(await response.arrayBuffer());
    expect(response.status, String(answer)).toBe(200);
    const outputs = answer.subarray(Number(response.headers.get(HEADER_LENGTH)));
    expect(outputs.toString('hex')).toBe(Buffer.from(values.buffer).toString('hex'));
  });

  test('BC-149 weights beside the model are found, from any folder and in any version', async () => {
    const body = oneInput('INPUT', 'FP32', [4], [1, 1, 1, 1]);
    const response = await fetch(`${deployment.http}/v2/models/external_weights/versions/2/infer`, {
      method: 'POST',
      body,
    });
    expect(response.status).toBe(200);
    expect(((await response.json()) as { outputs: { data: number[] }[] }).outputs[0]?.data).toEqual([1, 11, 21, 31]);
  });
});

test('BC-140 every role stops within its time while Redis is away', async () => {
  const folder = createModelFolder();
  folder.addEcho('echo', 'INT32', [1]);
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
  const starting = (['gateway', 'coordinator', 'worker'] as const).map((role) => cluster.start(role));
  try {
    const started = await Promise.all(starting.map((one) => one.started));
    await modelReady(started[0]?.http ?? '', 'echo');
    await redis.stop();
    const stoppedMs = performance.now();
    const endings = await Promise.all(started.map((one) => one.stop()));
    expect(performance.now() - stoppedMs).toBeLessThan(limitMs(GRACE_MS));
    for (const { code, output } of endings) expect(code, output).toBe(0);
  } finally {
    for (const one of starting) one.process.kill('SIGKILL');
    folder.remove();
  }
});

function int32(value: number) {
  return { name: 'VALUE', datatype: 'INT32', shape: [1], data: [value] };
}

function simpleConfig(name: string, count: number): string {
  const tensor = (side: string) => `{ name: "${side}", data_type: TYPE_INT32, dims: [ 16 ] }`;
  return `name: "${name}" backend: "onnxruntime" max_batch_size: 8
    input [ ${tensor('INPUT0')}, ${tensor('INPUT1')} ] output [ ${tensor('OUTPUT0')}, ${tensor('OUTPUT1')} ]
    instance_group [ { count: ${count}, kind: KIND_CPU } ]`;
}
