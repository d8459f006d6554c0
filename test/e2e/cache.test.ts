import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Cluster,
  clusterOn,
  type Deployment,
  deploy,
  flagEnvironment,
  MODES,
  type StartedProcess,
} from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { addGated, type GatedModel } from './gated-model.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { type Answer, infer, oneInput } from './requests.ts';

const CACHED = 'response_cache { enable: true }';
const EQUAL_REQUESTS = 20;
const LARGE_ELEMENTS = 100_000;
/** Two answers of LARGE_ELEMENTS fit, and not a third. */
const CACHE_BYTES = 1_000_000;
/** Answers with how many requests its instance has had. */
const COUNTS = `
  let count = 0;
  export const execute = (requests) => requests.map(({ inputs, parameters }) => {
    const { shape } = inputs.get('VALUE');
    const data = new Int32Array(shape[0]).fill(++count);
    return { outputs: { VALUE: { datatype: 'INT32', shape, data } }, parameters: { seen: Object.keys(parameters).length } };
  });`;

interface Stats {
  readonly inference_count: number;
  readonly execution_count: number;
  readonly inference_stats: Readonly<Record<string, { readonly count: number; readonly ns: number }>>;
}

let folder: ModelFolder;
let gated: GatedModel;

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript('counts', COUNTS, CACHED, { dims: -1 });
  gated = addGated(folder, 'gated', { config: CACHED });
});
afterAll(() => {
  folder.remove();
});

const ask = (http: string, value: number, more: object = {}) =>
  infer(http, 'counts', JSON.stringify({ ...JSON.parse(oneInput('VALUE', 'INT32', [1], [value])), ...more }));
const large = (http: string, value: number) =>
  infer(http, 'counts', oneInput('VALUE', 'INT32', [LARGE_ELEMENTS], new Array(LARGE_ELEMENTS).fill(value)));
const countIn = ({ outputs }: Answer) => outputs.get('VALUE')?.data?.[0];

async function statsOf(http: string, model: string): Promise<Stats> {
  const response = await fetch(`${http}/v2/models/${model}/stats`);
  const { model_stats } = (await response.json()) as { model_stats: readonly Stats[] };
  if (model_stats[0] === undefined) throw new Error(`no statistics of ${model}`);
  return model_stats[0];
}

describe.each(MODES)('a local cache in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [folder.path], [`--cache-config=local,size=${CACHE_BYTES}`]);
  });
  afterAll(async () => {
    await served.stop();
    rmSync(join(folder.path, 'gated.open'), { force: true });
    rmSync(join(folder.path, 'gated.begun'), { force: true });
  });

  test('an equal request is answered without a run, by its own id, and counted at once', async () => {
    const { http } = served;
    const first = await ask(http, 1);
    await eventually('the run is counted', async () => (await statsOf(http, 'counts')).execution_count === 1);
    const answer = await fetch(`${http}/v2/models/counts/infer`, {
      method: 'POST',
      body: JSON.stringify({ ...JSON.parse(oneInput('VALUE', 'INT32', [1], [1])), id: 'mine' }),
    });
    expect(await answer.json()).toMatchObject({ id: 'mine', outputs: [{ data: [countIn(first)] }] });
    const { execution_count, inference_count, inference_stats } = await statsOf(http, 'counts');
    expect([execution_count, inference_count]).toEqual([1, 1]);
    expect(inference_stats).toMatchObject({
      success: { count: 2 },
      queue: { count: 2 },
      compute_infer: { count: 1 },
      cache_hit: { count: 1 },
      cache_miss: { count: 1 },
    });
    const spent = (name: string) => inference_stats[name]?.ns ?? 0;
    expect(spent('cache_hit')).toBeGreaterThan(0);
    expect(spent('success')).toBeGreaterThanOrEqual(spent('queue') + spent('cache_hit') + spent('cache_miss'));
    const labels = { model: 'counts', version: '1' };
    expect(await metric(served.metrics, 'nv_cache_num_hits_per_model', labels)).toBe(1);
    expect(await metric(served.metrics, 'nv_cache_num_misses_per_model', labels)).toBe(1);
  });

  test('other data, shape or parameters run', async () => {
    const { http } = served;
    const counts = [
      await ask(http, 2),
      await infer(http, 'counts', oneInput('VALUE', 'INT32', [2], [2, 0])),
      await ask(http, 2, { parameters: { tone: 'warm' } }),
      await ask(http, 2, { parameters: { tone: 'cold' } }),
    ].map(countIn);
    expect(new Set(counts).size).toBe(4);
    expect(countIn(await ask(http, 2, { parameters: { tone: 'warm' } }))).toBe(counts[2]);
  });

  test('large answers are kept by their bytes: the one used longest ago goes first', async () => {
    const { http } = served;
    const [one, two] = [countIn(await large(http, 1)), countIn(await large(http, 2))];
    expect(countIn(await large(http, 1))).toBe(one);
    const three = countIn(await large(http, 3));
    expect(countIn(await large(http, 1))).toBe(one);
    expect(countIn(await large(http, 3))).toBe(three);
    expect(countIn(await large(http, 2))).not.toBe(two);
  });

  test(`${EQUAL_REQUESTS} equal requests at the same time are one execution, whoever of them gives up`, async () => {
    const { http } = served;
    const leaving = new AbortController();
    const body = oneInput('VALUE', 'INT32', [1], [7]);
    const left = fetch(`${http}/v2/models/gated/infer`, { method: 'POST', body, signal: leaving.signal });
    left.catch(() => {});
    await eventually('the first runs', async () => gated.begun().length === 1);
    const answers = Array.from({ length: EQUAL_REQUESTS - 1 }, () => infer(http, 'gated', body));
    const [gateway] = served.gateways;
    const waiting = () => metric(gateway?.metrics ?? '', 'nereid_held', { role: 'gateway', kind: 'requests' });
    await eventually('all wait', async () => (await waiting()) === EQUAL_REQUESTS);
    leaving.abort();
    await expect(left).rejects.toThrow();
    gated.open();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect([gated.begun(), gated.aborted()]).toEqual([[7], []]);
    await eventually('all are counted', async () => {
      const { execution_count, inference_stats } = await statsOf(http, 'gated');
      return execution_count === 1 && inference_stats.cache_hit?.count === EQUAL_REQUESTS - 1;
    });
  });
});

describe('answers in Redis', () => {
  let redis: PrivateRedis;
  let cluster: Cluster;
  let started: StartedProcess[];

  async function start(role: 'gateway' | 'coordinator' | 'worker'): Promise<StartedProcess> {
    const process = await cluster.start(role).started;
    started.push(process);
    return process;
  }

  async function startGateway(): Promise<StartedProcess & { readonly http: string }> {
    const gateway = await start('gateway');
    return { ...gateway, http: gateway.http ?? '' };
  }

  let gateways: readonly (StartedProcess & { readonly http: string })[];

  beforeAll(async () => {
    started = [];
    redis = await startPrivateRedis();
    cluster = clusterOn(
      redis,
      flagEnvironment([`--model-repository=${folder.path}`, '--cache-config=redis,ttl_s=600']),
    );
    [gateways] = await Promise.all([
      Promise.all([startGateway(), startGateway()]),
      start('coordinator'),
      start('worker'),
    ]);
    for (const { http } of gateways) await modelReady(http, 'counts');
  });
  afterAll(async () => {
    for (const one of started) one.process.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await redis.stop();
  });

  const keys = async () => (await redis.ask('KEYS', 'nereid:cache:*')) as readonly string[];

  test('are shared by all gateways and outlive each', async () => {
    const [first, second] = gateways.map(({ http }) => http) as [string, string];
    const count = countIn(await ask(first, 1));
    const many = countIn(await large(first, 1));
    await eventually('both are kept', async () => (await keys()).length === 2);
    expect([countIn(await ask(second, 1)), countIn(await large(second, 1))]).toEqual([count, many]);

    for (const { process, ended } of gateways) {
      process.kill('SIGKILL');
      await ended;
    }
    const { http } = await startGateway();
    await modelReady(http, 'counts');
    expect(countIn(await ask(http, 1))).toBe(count);
    await eventually('the hits are counted', async () => {
      const { inference_stats, execution_count } = await statsOf(http, 'counts');
      return execution_count === 2 && inference_stats.cache_hit?.count === 3 && inference_stats.cache_miss?.count === 2;
    });
  });
});
