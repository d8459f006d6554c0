import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { clusterOn, deploy, flagEnvironment, MODES } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { addLookupModel } from './lookup-model.ts';
import { metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

/** `NEREID_PLACEMENT_TRACE=full`: the trace as it is to hold, which takes minutes. */
const FULL = process.env.NEREID_PLACEMENT_TRACE === 'full';
const MODELS = FULL ? 30 : 8;
const HELD = FULL ? 10 : 3;
const MODEL_BYTES = FULL ? 5_000_000 : 65_536;
const REQUESTS = FULL ? 1000 : 24;
const CLIENTS = 16;
/** Room for the graph around each table. */
const BUDGET = HELD * (MODEL_BYTES + 1024);
const LIMIT_MS = FULL ? 900_000 : 90_000;
const READY_LIMIT_MS = 50_000;
/** Of the hit rate of an ideal LRU. */
const TOLERANCE = 0.05;

const folder = createModelFolder();
const names = Array.from({ length: MODELS }, (_, index) => `table${index}`);
const INDEX = oneInput('INDEX', 'INT64', [1], [1]);
const VALUE = oneInput('VALUE', 'INT32', [1], [1]);
const NEEDS_LABEL = 'parameters { key: "nereid.labels" value { string_value: "zone=a" } }';
const ECHO =
  "export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));";

beforeAll(() => {
  for (const [index, name] of names.entries()) addLookupModel(folder.path, name, MODEL_BYTES, index);
});
afterAll(() => folder.remove());

/** The same numbers at each run. */
function zipfTrace(requests: number, seed: number): readonly string[] {
  const weights = names.map((_, rank) => 1 / (rank + 1));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let state = seed;
  return Array.from({ length: requests }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    let left = (state / 2 ** 32) * total;
    const rank = weights.findIndex((weight) => {
      left -= weight;
      return left < 0;
    });
    return names[Math.max(0, rank)] ?? '';
  });
}

/** How often a cache of so many models, from which the least recently used goes, has not got what is asked for. */
function idealMisses(trace: readonly string[], size: number): number {
  const held: string[] = [];
  let misses = 0;
  for (const name of trace) {
    const place = held.indexOf(name);
    if (place < 0) misses++;
    else held.splice(place, 1);
    held.unshift(name);
    held.length = Math.min(held.length, size);
  }
  return misses;
}

interface Place {
  readonly http: string;
  /** Of the worker. */
  readonly metrics: string;
  stop(): Promise<unknown>;
}

async function start(mode: string, repository: string, worker: string, coordinator: string): Promise<Place> {
  if (mode === 'one') {
    const { http, metrics, stop } = await deploy(mode, [repository], [worker, coordinator]);
    return { http, metrics, stop };
  }
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${repository}`]));
  const roles = [
    cluster.start('gateway'),
    cluster.start('coordinator', [coordinator]),
    cluster.start('worker', [worker]),
  ];
  const [gateway, , holder] = await Promise.all(roles.map((role) => role.started));
  const http = gateway?.http ?? '';
  expect(await becomesReady(http, () => false, READY_LIMIT_MS)).toBe(true);
  return {
    http,
    metrics: holder?.metrics ?? '',
    async stop() {
      for (const role of roles) await role.stop();
      await redis.stop();
    },
  };
}

interface Told {
  readonly holders: readonly unknown[];
  readonly decisions: readonly { readonly decision: string }[];
  readonly workers: readonly unknown[];
}

async function json<T = Told>(url: string, method = 'GET', body = ''): Promise<T> {
  const text = await (await fetch(url, body === '' ? { method } : { method, body })).text();
  return JSON.parse(text);
}

describe.each(MODES)('on demand under a memory budget, mode %s', (mode) => {
  let place: Place;
  beforeAll(async () => {
    place = await start(mode, folder.path, `--memory-budget=cpu=${BUDGET}`, '--placement=on-demand');
  }, READY_LIMIT_MS);
  afterAll(() => place.stop());

  const ask = async (name: string) => {
    const { outputs, error } = await infer(place.http, name, INDEX);
    expect(error).toBeUndefined();
    expect(outputs.get('VALUE')?.data).toEqual([names.indexOf(name)]);
  };
  const loads = () => metric(place.metrics, 'nereid_model_loads_total');
  const expectWithinBudget = async () => {
    const peak = await metric(place.metrics, 'nereid_model_memory_bytes', { device: 'cpu', kind: 'peak' });
    expect(peak).toBeGreaterThan(MODEL_BYTES);
    expect(peak).toBeLessThanOrEqual(BUDGET);
  };

  test(
    'one request at a time: no failure, and what is loaded is what an ideal LRU would load',
    async () => {
      const trace = zipfTrace(REQUESTS, 11);
      // Nobody holds it yet.
      expect((await fetch(`${place.http}/v2/models/${trace[0]}/ready`)).status).toBe(200);
      const before = await loads();
      for (const name of trace) await ask(name);
      const hits = REQUESTS - ((await loads()) - before);
      const ideal = REQUESTS - idealMisses(trace, HELD);
      expect(Math.abs(hits - ideal)).toBeLessThanOrEqual(ideal * TOLERANCE);
      await expectWithinBudget();
    },
    LIMIT_MS,
  );

  test(
    'sixteen at a time: no failure, and the budget holds at every change',
    async () => {
      const trace = [...zipfTrace(REQUESTS, 23)];
      const client = async () => {
        for (let name = trace.pop(); name !== undefined; name = trace.pop()) await ask(name);
      };
      await Promise.all(Array.from({ length: CLIENTS }, client));
      await expectWithinBudget();
    },
    LIMIT_MS,
  );

  test('a model that is pinned stays, and its placement says why it is where it is', async () => {
    const [pinned = ''] = names.slice(-1);
    const url = `${place.http}/nereid/v1/models/${pinned}`;
    await fetch(`${url}/prefetch`, { method: 'POST' });
    const held = () => json(`${url}/placement`);
    await vi.waitFor(async () => expect((await held()).holders).toMatchObject([{ state: 'ready' }]), READY_LIMIT_MS);
    expect(await json(`${url}/pin`, 'POST')).toMatchObject({ model: pinned, placement: 'on-demand', pinned: true });
    for (const name of names.slice(0, HELD + 1)) await ask(name);
    const told = await held();
    expect(told.holders).toMatchObject([{ state: 'ready' }]);
    expect(told.decisions.map(({ decision }) => decision).join('\n')).toMatch(
      /wk-\w+ is to load the model: [\d.]+ \w+ of [\d.]+ \w+ are free on cpu/,
    );
    expect(await json(`${url}/pin`, 'DELETE')).toMatchObject({ pinned: false });

    const { workers } = await json(`${place.http}/nereid/v1/workers`);
    expect(workers).toMatchObject([{ state: 'ready', memory: [{ device: 'cpu', budget_bytes: BUDGET }] }]);
    expect(await json(`${place.http}/nereid/v1/capacity`)).toMatchObject({ workers: 1, devices: [{ device: 'cpu' }] });
  });
});

test.each(MODES)(
  'what can never fit is refused before it loads, with both figures; mode %s',
  async (mode) => {
    const large = createModelFolder();
    addLookupModel(large.path, 'large', 1_048_576, 1);
    const place = await start(mode, large.path, '--memory-budget=cpu=512KiB', '--placement=on-demand');
    try {
      const answer = await infer(place.http, 'large', INDEX);
      expect(answer.status).toBe(503);
      expect(answer.error).toMatch(/needs 1(\.0)? MiB on cpu, and the memory budget is 512 KiB/);
      expect(await metric(place.metrics, 'nereid_model_loads_total')).toBe(0);
      const index = await json(`${place.http}/v2/repository/index`, 'POST');
      expect(index).toMatchObject([{ name: 'large', state: 'UNAVAILABLE' }]);
    } finally {
      await place.stop();
      large.remove();
    }
  },
  60_000,
);

test('a model that asks for labels waits for a worker that carries them, and one scaled to zero for any', async () => {
  const models = createModelFolder();
  models.addJavaScript('labelled', ECHO, NEEDS_LABEL);
  const zero = (key: string, value: string) => `parameters { key: "nereid.${key}" value { string_value: "${value}" } }`;
  models.addJavaScript('zero', ECHO, zero('scale_to_zero', 'true'));
  models.addJavaScript('hasty', ECHO, `${zero('scale_to_zero', 'true')} ${zero('max_wait_ms', '200')}`);
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${models.path}`]));
  const roles = [cluster.start('gateway'), cluster.start('coordinator')];
  try {
    const [gateway, coordinator] = await Promise.all(roles.map((role) => role.started));
    const http = gateway?.http ?? '';
    const other = cluster.start('worker', ['--worker-labels=zone=b', '--worker-models=labelled']);
    roles.push(other);
    await other.started;
    const stateOf = async (name: string) => {
      const url = `${http}/v2/repository/index`;
      const index = await json<{ name: string; state: string; reason?: string }[]>(url, 'POST');
      return index.find((model) => model.name === name);
    };
    await vi.waitFor(async () => {
      expect((await stateOf('labelled'))?.reason).toBe(
        'Unavailable: no worker holds the model: no worker carries zone=a',
      );
    }, READY_LIMIT_MS);

    // Nobody lives that takes it, and it is ready all the same.
    expect((await fetch(`${http}/v2/models/zero/ready`)).status).toBe(200);
    const late = await fetch(`${http}/v2/models/hasty/infer`, { method: 'POST', body: VALUE });
    expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1']);
    const waiting = infer(http, 'zero', VALUE);
    const job = await json<{ readonly id: string }>(`${http}/v2/models/zero/jobs`, 'POST', VALUE);
    const wanted = () => metric(coordinator?.metrics ?? '', 'nereid_desired_workers', { model: 'zero' });
    await vi.waitFor(async () => expect(await wanted()).toBe(2), READY_LIMIT_MS);

    const worker = cluster.start('worker', ['--worker-labels=zone=a,disk=ssd']);
    roles.push(worker);
    expect((await waiting).outputs.get('VALUE')?.data).toEqual([1]);
    expect(await json(`${http}/v2/jobs/${job.id}/result?wait=30s`)).toMatchObject({ outputs: [{ data: [1] }] });
    await vi.waitFor(async () => expect((await stateOf('labelled'))?.state).toBe('READY'), READY_LIMIT_MS);
    expect((await infer(http, 'labelled', VALUE)).status).toBe(200);
    await vi.waitFor(async () => expect(await wanted()).toBe(0), READY_LIMIT_MS);
  } finally {
    for (const role of roles) await role.stop();
    await redis.stop();
    models.remove();
  }
}, 90_000);
