/** Requests of some megabytes between processes of their own: as files in shared memory, and through Redis. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { clusterOn, flagEnvironment, type StartingProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

const SHARED_MEMORY = '/dev/shm';
const ELEMENTS = 750_000;
const READY_LIMIT_MS = 50_000;
/** A blob lives for 12 s, stretched by this factor, and is looked for three times in that time. */
const TIME_SCALE = 0.5;
const EXPIRY_LIMIT_MS = 60_000;

/** Answers with what it is given; over a first element below 0 it waits until the file "go" is there. */
const ECHO = (go: string) => `
  import { existsSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    for (const request of requests) {
      while (request.inputs.get('VALUE').data[0] < 0 && !existsSync(${JSON.stringify(go)})) await setTimeout(10);
    }
    return requests.map((request) => ({ outputs: { VALUE: request.inputs.get('VALUE') } }));
  }`;

type RoleName = 'gateway' | 'coordinator' | 'worker';

/** Linux; elsewhere large tensors go through Redis. */
const PLACES = existsSync(SHARED_MEMORY) ? (['file', 'redis'] as const) : (['redis'] as const);

describe.each(PLACES)('large tensors by %s', (place) => {
  let folder: ModelFolder;
  let redis: PrivateRedis;
  let blobs: string;
  let go: string;
  let processes: Record<RoleName, StartingProcess>;
  let http: string;

  beforeAll(async () => {
    blobs = mkdtempSync(join(existsSync(SHARED_MEMORY) ? SHARED_MEMORY : tmpdir(), 'nereid-test-'));
    redis = await startPrivateRedis();
    folder = createModelFolder();
    go = join(folder.path, 'go');
    folder.addJavaScript('echo', ECHO(go));
    const config = join(folder.path, 'echo');
    mkdirSync(config, { recursive: true });
    writeFileSync(
      join(config, 'config.pbtxt'),
      `name: "echo" backend: "javascript" max_batch_size: 0
       input [ { name: "VALUE", data_type: TYPE_FP32, dims: [ -1 ] } ]
       output [ { name: "VALUE", data_type: TYPE_FP32, dims: [ -1 ] } ]
       instance_group [ { count: 1, kind: KIND_CPU } ]`,
    );
    const environment = flagEnvironment([
      `--model-repository=${folder.path}`,
      `--time-scale=${TIME_SCALE}`,
      `--blob-dir=${place === 'file' ? blobs : 'none'}`,
    ]);
    const cluster = clusterOn(redis, environment);
    processes = {
      gateway: cluster.start('gateway'),
      coordinator: cluster.start('coordinator'),
      worker: cluster.start('worker'),
    };
    // A coordinator has started once its models are loaded.
    const [started] = await Promise.all(Object.values(processes).map(({ started }) => started));
    http = started?.http ?? '';
    expect(await becomesReady(http, () => false, READY_LIMIT_MS)).toBe(true);
  });
  afterAll(async () => {
    for (const { process } of Object.values(processes)) process.kill('SIGKILL');
    await Promise.all(Object.values(processes).map(({ ended }) => ended));
    await redis.stop();
    folder.remove();
    rmSync(blobs, { recursive: true, force: true });
  });

  const files = () =>
    readdirSync(blobs).flatMap((name) => readdirSync(join(blobs, name)).map((file) => `${name}/${file}`));
  const keys = async () => (await redis.ask('KEYS', 'nereid:blob:*')) as readonly string[];
  const left = async () => [...files(), ...(await keys())];

  const ask = async (values: Float32Array<ArrayBuffer>) => {
    const header = JSON.stringify({
      inputs: [
        {
          name: 'VALUE',
          shape: [values.length],
          datatype: 'FP32',
          parameters: { binary_data_size: values.byteLength },
        },
      ],
      parameters: { binary_data_output: true },
    });
    const response = await fetch(`${http}/v2/models/echo/infer`, {
      method: 'POST',
      headers: { 'Inference-Header-Content-Length': `${header.length}` },
      body: Buffer.concat([Buffer.from(header), Buffer.from(values.buffer)]),
    });
    const body = Buffer.from(await response.arrayBuffer());
    const headerLength = Number(response.headers.get('Inference-Header-Content-Length') ?? 0);
    return { status: response.status, data: body.subarray(headerLength) };
  };

  test('the answer is right, and nothing is left', async () => {
    const values = Float32Array.from({ length: ELEMENTS }, (_, index) => index);
    const answers = await Promise.all(Array.from({ length: 6 }, () => ask(values)));
    for (const { status, data } of answers) {
      expect(status, data.toString('latin1', 0, 300)).toBe(200);
      expect(Buffer.compare(data, Buffer.from(values.buffer))).toBe(0);
    }
    await expect.poll(left).toEqual([]);
  });

  test('while a request waits its tensor is there, in the one place', async () => {
    const asked = ask(new Float32Array(ELEMENTS).fill(-1));
    await expect.poll(left).toHaveLength(1);
    expect(files()).toHaveLength(place === 'file' ? 1 : 0);
    writeFileSync(go, '');
    expect((await asked).status).toBe(200);
    rmSync(go);
    await expect.poll(left).toEqual([]);
  });

  test("a job's tensors go the same way, both from and to its coordinator", async () => {
    const data = Array.from({ length: 10_000 }, (_, index) => index);
    const submitted = await fetch(`${http}/v2/models/echo/jobs`, {
      method: 'POST',
      body: JSON.stringify({
        inputs: [{ name: 'VALUE', shape: [data.length], datatype: 'FP32', data }],
        respond: 'json',
      }),
    });
    expect(submitted.status).toBe(202);
    const { result_url } = (await submitted.json()) as { readonly result_url: string };
    const result = await fetch(`${http}${result_url}?wait=25s`);
    expect(result.status).toBe(200);
    const { outputs } = (await result.json()) as { readonly outputs: readonly [{ readonly data: readonly number[] }] };
    expect(outputs[0].data).toEqual(data);
    await expect.poll(left).toEqual([]);
  });

  test('of a worker and a gateway that are killed nothing stays', { timeout: 2 * EXPIRY_LIMIT_MS }, async () => {
    const asked = ask(new Float32Array(ELEMENTS).fill(-1)).catch(() => undefined);
    await expect.poll(left).toHaveLength(1);
    processes.worker.process.kill('SIGKILL');
    await processes.worker.ended;
    // The gateway still holds it, for the next worker.
    expect(await left()).toHaveLength(1);
    processes.gateway.process.kill('SIGKILL');
    await processes.gateway.ended;
    await asked;
    expect(await left()).toHaveLength(1);
    await expect.poll(left, { timeout: EXPIRY_LIMIT_MS, interval: 200 }).toEqual([]);
    expect(existsSync(blobs)).toBe(true);
  });
});
