import { rmSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
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
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { infer, oneInput } from './requests.ts';

interface Duration {
  readonly count: number;
  readonly ns: number;
}

interface Stats {
  readonly name: string;
  readonly version: string;
  readonly last_inference: number;
  readonly inference_count: number;
  readonly execution_count: number;
  readonly inference_stats: Readonly<Record<string, Duration>>;
  readonly response_stats: object;
  readonly batch_stats: readonly { readonly batch_size: number; readonly compute_infer: Duration }[];
  readonly memory_usage: readonly unknown[];
}

const ECHO =
  'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get("VALUE") } }));';
const FAILS = 'export const execute = () => { throw new Error("always"); };';
/** Answers once the file is there. */
const waits = (gate: string) => `
  import { existsSync } from "node:fs";
  import { setTimeout } from "node:timers/promises";
  export async function execute(requests) {
    while (!existsSync(${JSON.stringify(gate)})) await setTimeout(5);
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get("VALUE") } }));
  }`;
const ALL_STATS = '/v2/models/stats';

let folder: ModelFolder;
let gate: string;

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript('echo', ECHO, 'dynamic_batching { }', { maxBatchSize: 8 });
  folder.addJavaScript('always_fails', FAILS);
  gate = `${folder.path}.gate`;
  folder.addJavaScript('waits', waits(gate));
});
afterAll(() => {
  folder.remove();
  rmSync(gate, { force: true });
});

async function statsOf(
  http: string,
  path: string,
): Promise<{ status: number; stats: readonly Stats[]; error?: string }> {
  const response = await fetch(`${http}${path}`);
  const body: { model_stats?: Stats[]; error?: string } = JSON.parse(await response.text());
  const { model_stats: stats = [], error } = body;
  return { status: response.status, stats, ...(error === undefined ? {} : { error }) };
}

interface Queue {
  readonly model: string;
  readonly waiting: number;
  readonly running: number;
  readonly pending: number;
  readonly oldest_waiting_ms: number;
  readonly batches: Readonly<
    Record<string, { readonly count: number; readonly rows: number; readonly sizes: Readonly<Record<string, number>> }>
  >;
}

/** What a gateway tells of queues; nothing where it cannot now. */
async function queuesOf(http: string, query = ''): Promise<readonly Queue[]> {
  const response = await fetch(`${http}/nereid/v1/queues${query}`);
  const { queues = [] } = (await response.json()) as { queues?: Queue[] };
  return queues;
}

/** All executed batches of a queue, whyever they were closed. */
const batchesIn = (queue: Queue | undefined) =>
  Object.values(queue?.batches ?? {}).reduce((sum, { count }) => sum + count, 0);

/** Successful requests of `echo`, as this gateway tells them; undefined where it cannot tell now. */
async function successes(http: string): Promise<number | undefined> {
  return (await statsOf(http, '/v2/models/echo/stats')).stats[0]?.inference_stats.success?.count;
}

const echo = (http: string, rows: number) =>
  infer(
    http,
    'echo',
    oneInput(
      'VALUE',
      'INT32',
      [rows, 1],
      Array.from({ length: rows }, () => 7),
    ),
  );

describe.each(MODES)('in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    await served.stop();
  });

  test('every gateway tells the same of all models, whichever had the requests; so do the metrics', async () => {
    const rows = [3, 1, 8, 2];
    for (const [index, count] of rows.entries()) {
      const { http } = served.gateways[index % served.gateways.length] ?? served;
      expect((await echo(http, count)).status).toBe(200);
    }
    expect((await infer(served.http, 'always_fails', oneInput('VALUE', 'INT32', [1], [0]))).status).toBe(500);
    await eventually('all are counted', async () => {
      const { stats } = await statsOf(served.http, ALL_STATS);
      return stats.reduce((sum, { execution_count }) => sum + execution_count, 0) === rows.length + 1;
    });
    const { status, stats } = await statsOf(served.http, ALL_STATS);
    expect([status, stats.map(({ name, version }) => [name, version])]).toEqual([
      200,
      [
        ['always_fails', '1'],
        ['echo', '1'],
        ['waits', '1'],
      ],
    ]);
    for (const { http } of served.gateways) expect((await statsOf(http, ALL_STATS)).stats).toEqual(stats);
    const [failed, told] = stats;
    expect(told).toMatchObject({
      inference_count: 14,
      execution_count: 4,
      inference_stats: { success: { count: 4 }, fail: { count: 0, ns: 0 }, cache_hit: { count: 0, ns: 0 } },
      response_stats: {},
      memory_usage: [],
    });
    expect(told?.batch_stats.map(({ batch_size, compute_infer }) => [batch_size, compute_infer.count])).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
      [8, 1],
    ]);
    expect(failed).toMatchObject({
      inference_count: 0,
      execution_count: 1,
      inference_stats: { success: { count: 0, ns: 0 }, fail: { count: 1 } },
    });
    const queues = await queuesOf(served.http);
    for (const { http } of served.gateways) expect(await queuesOf(http)).toEqual(queues);
    expect(queues.map(({ model }) => model)).toEqual(['always_fails', 'echo', 'waits']);
    expect(queues[0]?.batches).toEqual({ single: { count: 1, rows: 1, sizes: { 1: 1 } } });
    const closes = Object.values(queues[1]?.batches ?? {});
    expect(closes.reduce((sum, close) => sum + close.rows, 0)).toBe(14);
    const sizes = closes.flatMap((close) => Object.entries(close.sizes));
    expect(sizes.map(([size, count]) => `${size} ${count}`).sort()).toEqual(['1 1', '2 1', '3 1', '8 1']);
    const ofEcho = { model: 'echo', version: '1' };
    expect(await metric(served.metrics, 'nereid_batch_size_count', ofEcho)).toBe(4);
    expect(await metric(served.metrics, 'nereid_batch_size_sum', ofEcho)).toBe(14);
    expect(await metric(served.metrics, 'nereid_batch_size_bucket', { ...ofEcho, le: '4' })).toBe(3);
    expect(await metric(served.metrics, 'nv_inference_count', ofEcho)).toBe(14);
    const successUs = (told?.inference_stats.success?.ns ?? 0) / 1_000;
    const metricUs = await metric(served.metrics, 'nv_inference_request_duration_us', ofEcho);
    // Cut to whole microseconds, each of the four requests.
    expect(successUs - metricUs).toBeGreaterThanOrEqual(0);
    expect(successUs - metricUs).toBeLessThanOrEqual(4);
  });

  test('what is accepted and does not run yet is pending', async () => {
    rmSync(gate, { force: true });
    const pending = () => metric(served.metrics, 'nv_inference_pending_request_count', { model: 'waits' });
    expect(await pending()).toBe(0);
    const answers = Array.from({ length: 4 }, () => infer(served.http, 'waits', oneInput('VALUE', 'INT32', [1], [1])));
    await eventually('three wait behind the first', async () => (await pending()) === 3);
    for (const { http } of served.gateways) {
      const [queue] = await queuesOf(http, '?model=waits');
      expect([queue?.pending, (queue?.waiting ?? 0) + (queue?.running ?? 0)]).toEqual([3, 4]);
      expect(queue?.oldest_waiting_ms).toBeGreaterThanOrEqual(0);
    }
    writeFileSync(gate, '');
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    await eventually('nothing is pending', async () => (await pending()) === 0);
  });

  test.each([
    ['/v2/models/none/stats', "requested model 'none' is not available"],
    ['/v2/models/echo/versions/7/stats', "requested model version is not available for model 'echo'"],
  ])('%s is 400', async (path, text) => {
    for (const { http } of served.gateways) {
      expect(await statsOf(http, path)).toEqual({ status: 400, stats: [], error: text });
    }
  });
});

describe('with two coordinators', () => {
  let redis: PrivateRedis;
  let cluster: Cluster;
  let started: StartedProcess[];

  async function start(role: 'gateway' | 'coordinator' | 'worker'): Promise<StartedProcess> {
    const process = await cluster.start(role).started;
    started.push(process);
    return process;
  }

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

  test.each([['SIGTERM'], ['SIGKILL']] as const)(
    'what was counted outlives an owner that ends by %s',
    async (signal) => {
      const [owner] = await Promise.all([start('coordinator'), start('worker')]);
      const [{ http = '' }] = await Promise.all([start('gateway'), start('coordinator')]);
      await modelReady(http, 'echo');
      for (let sent = 0; sent < 5; sent++) expect((await echo(http, 1)).status).toBe(200);
      await eventually('all are counted', async () => (await successes(http)) === 5);
      if (signal === 'SIGKILL') {
        await eventually('all are kept', async () => {
          const kept = await redis.ask('HGET', 'nereid:statistics:{all}', 'echo');
          return String(kept).includes('"success":5');
        });
      }
      owner.process.kill(signal);
      await owner.ended;
      const seen: (number | undefined)[] = [];
      await eventually('the next owner tells', async () => {
        const count = await successes(http);
        if (count !== undefined) seen.push(count);
        return count !== undefined;
      });
      expect((await echo(http, 1)).status).toBe(200);
      await eventually('the next request is counted too', async () => {
        seen.push(await successes(http));
        return seen.at(-1) === 6;
      });
      expect(batchesIn((await queuesOf(http, '?model=echo'))[0])).toBe(6);
      expect([...new Set(seen)].filter((count) => count !== 6)).toEqual([5]);
    },
  );
});
