/** Tensors between the steps of an ensemble, with the roles apart on one host: they pass neither Redis nor the gateway. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { clusterOn, flagEnvironment, type StartedProcess, type StartingProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

const SHARED_MEMORY = '/dev/shm';
/** Linux; elsewhere workers have no files to share. */
const PLACES = [
  ['near', 'steps that one worker can run'],
  ...(existsSync(SHARED_MEMORY) ? [['far', 'steps of two workers'] as const] : []),
] as const;
const READY_LIMIT_MS = 100_000;
/** Six processes, on a machine that others use too. */
const START_LIMIT_MS = 120_000;
const LARGE_ELEMENTS = 1_000_000;
const SMALL_ELEMENTS = 16_000;
const ELEMENT_BYTES = 4;
const REQUESTS = 8;
/** Of one request, beside its tensors: far less than one of the large ones, on however slow a machine. */
const MESSAGES_BYTES_MAX = 400_000;

/** A tensor of as many elements as its input says, all 1. */
const WIDE = `
  export const execute = (requests) => requests.map(({ inputs }) => {
    const count = Math.abs(inputs.get('VALUE').data[0]);
    return { outputs: { VALUE: { datatype: 'INT32', shape: [count], data: new Int32Array(count).fill(1) } } };
  });`;
const SUM = `
  export const execute = (requests) => requests.map(({ inputs }) => {
    const sum = inputs.get('VALUE').data.reduce((total, value) => total + value, 0);
    return { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(sum) } } };
  });`;
/** Waits for the file "go". */
const GATE = (go: string) => `
  import { existsSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    while (!existsSync(${JSON.stringify(go)})) await setTimeout(10);
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
  }`;
const BOTH = `
  export const execute = (requests) => requests.map(({ inputs }) => {
    const { length } = inputs.get('VALUE').data;
    return { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(length) } } };
  });`;

const step = (model: string, inputs: Record<string, string>, output: string) => {
  const maps = Object.entries(inputs).map(([key, value]) => `input_map { key: "${key}" value: "${value}" }`);
  return `{ model_name: "${model}" model_version: -1 ${maps.join(' ')} output_map { key: "VALUE" value: "${output}" } }`;
};
const ensemble = (name: string, ...steps: readonly string[]) => `name: "${name}" platform: "ensemble" max_batch_size: 0
  input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ -1 ] } ]
  output [ { name: "RESULT", data_type: TYPE_INT32, dims: [ -1 ] } ]
  ensemble_scheduling { step [ ${steps.join(', ')} ] }`;

const ENSEMBLES = [
  ensemble('near', step('wide', { VALUE: 'VALUE' }, 'BETWEEN'), step('sum', { VALUE: 'BETWEEN' }, 'RESULT')),
  ensemble('far', step('wide', { VALUE: 'VALUE' }, 'BETWEEN'), step('sum_elsewhere', { VALUE: 'BETWEEN' }, 'RESULT')),
  ensemble('echoes', step('echo', { VALUE: 'VALUE' }, 'BETWEEN'), step('echo', { VALUE: 'BETWEEN' }, 'RESULT')),
  ensemble(
    'gated',
    step('wide', { VALUE: 'VALUE' }, 'BETWEEN'),
    step('gate', { VALUE: 'VALUE' }, 'OPENED'),
    step('both', { VALUE: 'BETWEEN', GO: 'OPENED' }, 'RESULT'),
  ),
];

describe('tensors between steps', () => {
  let folder: ModelFolder;
  let redis: PrivateRedis;
  let blobs: string;
  let go: string;
  let starting: StartingProcess[];
  let gateway: StartedProcess;
  let workers: StartedProcess[];
  let http: string;

  const addModel = (name: string, source: string | undefined, config: string) => {
    mkdirSync(join(folder.path, name, '1'), { recursive: true });
    if (source !== undefined) writeFileSync(join(folder.path, name, '1', 'model.mjs'), source);
    writeFileSync(join(folder.path, name, 'config.pbtxt'), config);
  };
  const javaScript = (name: string, source: string, inputs: readonly string[] = ['VALUE']) =>
    addModel(
      name,
      source,
      `name: "${name}" backend: "javascript" max_batch_size: 0
       ${inputs.map((input) => `input { name: "${input}", data_type: TYPE_INT32, dims: [ -1 ] }`).join('\n')}
       output { name: "VALUE", data_type: TYPE_INT32, dims: [ -1 ] } instance_group { count: 1, kind: KIND_CPU }`,
    );

  beforeAll(async () => {
    blobs = mkdtempSync(join(existsSync(SHARED_MEMORY) ? SHARED_MEMORY : tmpdir(), 'nereid-test-'));
    redis = await startPrivateRedis();
    folder = createModelFolder();
    go = join(folder.path, 'go');
    javaScript('wide', WIDE);
    javaScript('sum', SUM);
    javaScript('sum_elsewhere', SUM);
    javaScript(
      'echo',
      'export const execute = (all) => all.map(({ inputs }) => ({ outputs: { VALUE: inputs.get("VALUE") } }));',
    );
    javaScript('gate', GATE(go));
    javaScript('both', BOTH, ['VALUE', 'GO']);
    for (const config of ENSEMBLES) addModel(/"(\w+)"/.exec(config)?.[1] ?? '', undefined, config);
    const environment = flagEnvironment([`--model-repository=${folder.path}`, `--blob-dir=${blobs}`]);
    const cluster = clusterOn(redis, environment);
    starting = [
      cluster.start('gateway'),
      cluster.start('coordinator'),
      // Two that are alike, of which one is killed.
      cluster.start('worker', ['--worker-models=wide,sum,echo']),
      cluster.start('worker', ['--worker-models=wide,sum,echo']),
      cluster.start('worker', ['--worker-models=sum_elsewhere,gate,both']),
    ];
    const [door, , ...others] = await Promise.all(starting.map(({ started }) => started));
    if (door?.http === undefined) throw new Error('no gateway');
    gateway = door;
    http = door.http;
    workers = others;
    expect(await becomesReady(http, () => false, READY_LIMIT_MS)).toBe(true);
  }, START_LIMIT_MS);
  afterAll(async () => {
    for (const { process } of starting) process.kill('SIGKILL');
    await Promise.all(starting.map(({ ended }) => ended));
    await redis.stop();
    folder.remove();
    rmSync(blobs, { recursive: true, force: true });
  });

  const files = () => readdirSync(blobs).flatMap((name) => readdirSync(join(blobs, name)));
  const keys = async () => (await redis.ask('KEYS', 'nereid:blob:*')) as readonly string[];
  const keptBytes = (worker: StartedProcess) =>
    metric(worker.metrics, 'nereid_held', { role: 'worker', kind: 'kept_bytes' });
  const nothingLeft = async (of: readonly StartedProcess[] = workers) => {
    for (const worker of of) if ((await keptBytes(worker)) > 0) return false;
    return files().length + (await keys()).length === 0;
  };

  /** Bytes that have gone through Redis. */
  const redisBytes = async () => {
    const told = String(await redis.ask('INFO', 'stats'));
    const of = (name: string) => Number(new RegExp(`${name}:(\\d+)`).exec(told)?.[1]);
    return of('total_net_input_bytes') + of('total_net_output_bytes');
  };
  /** Bytes that a process has read and written, files in shared memory too; 0 where the system does not say. */
  const processBytes = ({ process }: StartedProcess) => {
    const path = `/proc/${process.pid}/io`;
    if (!existsSync(path)) return 0;
    const of = (name: string) => Number(new RegExp(`${name}: (\\d+)`).exec(readFileSync(path, 'utf8'))?.[1]);
    return of('rchar') + of('wchar');
  };
  const ask = (model: string, elements: number) => infer(http, model, oneInput('VALUE', 'INT32', [1], [elements]));

  /** What one request takes beside others of its size. */
  const bytesPerRequest = async (model: string, elements: number) => {
    const before = { redis: await redisBytes(), gateway: processBytes(gateway) };
    for (let request = 0; request < REQUESTS; request++) {
      const { status, outputs, error } = await ask(model, elements);
      expect(status, error).toBe(200);
      expect(outputs.get('RESULT')?.data).toEqual([elements]);
    }
    return {
      redis: ((await redisBytes()) - before.redis) / REQUESTS,
      gateway: (processBytes(gateway) - before.gateway) / REQUESTS,
    };
  };

  test.each(PLACES)('%s: of %s 4 MB pass neither Redis nor the gateway, and nothing is left', async (model) => {
    const small = await bytesPerRequest(model, SMALL_ELEMENTS);
    const large = await bytesPerRequest(model, LARGE_ELEMENTS);
    for (const per of [small, large]) {
      expect(per.redis).toBeLessThan(MESSAGES_BYTES_MAX);
      expect(per.gateway).toBeLessThan(MESSAGES_BYTES_MAX);
    }
    expect(MESSAGES_BYTES_MAX).toBeLessThan((LARGE_ELEMENTS * ELEMENT_BYTES) / 4);
    await eventually('nothing left', nothingLeft);
  });

  test('what the client sends and gets goes by name too, and nothing of it is left', async () => {
    const values = Int32Array.from({ length: LARGE_ELEMENTS }, (_, index) => index);
    const header = JSON.stringify({
      inputs: [
        {
          ...{ name: 'VALUE', shape: [values.length], datatype: 'INT32' },
          parameters: { binary_data_size: values.byteLength },
        },
      ],
      parameters: { binary_data_output: true },
    });
    const before = await redisBytes();
    const response = await fetch(`${http}/v2/models/echoes/infer`, {
      method: 'POST',
      headers: { 'Inference-Header-Content-Length': `${header.length}` },
      body: Buffer.concat([Buffer.from(header), Buffer.from(values.buffer)]),
    });
    const body = Buffer.from(await response.arrayBuffer());
    expect(response.status, body.toString('latin1', 0, 300)).toBe(200);
    const answer = body.subarray(Number(response.headers.get('Inference-Header-Content-Length') ?? 0));
    expect(Buffer.compare(answer, Buffer.from(values.buffer))).toBe(0);
    if (existsSync(SHARED_MEMORY)) expect((await redisBytes()) - before).toBeLessThan(2 * MESSAGES_BYTES_MAX);
    await eventually('nothing left', nothingLeft);
  });

  test('a worker that dies with what it keeps: the request is answered once, by a run that begins anew', async () => {
    const asked = ask('gated', LARGE_ELEMENTS);
    let holder: StartedProcess | undefined;
    await eventually('kept', async () => {
      for (const worker of workers) {
        if ((await keptBytes(worker)) === LARGE_ELEMENTS * ELEMENT_BYTES) holder = worker;
      }
      return holder !== undefined;
    });
    holder?.process.kill('SIGKILL');
    await holder?.ended;
    writeFileSync(go, '');
    const { status, outputs, error } = await asked;
    expect(status, error).toBe(200);
    expect(outputs.get('RESULT')?.data).toEqual([LARGE_ELEMENTS]);
    await eventually('nothing left', () => nothingLeft(workers.filter((worker) => worker !== holder)));
  });
});
