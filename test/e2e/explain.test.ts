import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCli } from '../command.mjs';
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
import { addGated } from './gated-model.ts';
import { eventually } from './metrics.ts';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';

interface ToldRun {
  readonly state: string;
  readonly found: { readonly waiting: number; readonly running: number };
  readonly events?: readonly { readonly what: string }[];
  readonly batch?: object;
}

interface ToldRequest {
  readonly id: string;
  readonly state: string;
  readonly model?: string;
  readonly call?: object;
  readonly runs: readonly ToldRun[];
  readonly calls: readonly ToldRequest[];
}

interface Explained {
  readonly requests: readonly ToldRequest[];
  readonly job?: object;
  readonly unanswered: readonly string[];
}

const ECHO = `export const execute = (requests) =>
  requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));`;
/** Tells its process; a value over 0 is noted, and kept until the file is there. */
const HELD = (begun: string, open: string) => `
  import { appendFileSync, existsSync } from 'node:fs';
  import { setTimeout as delay } from 'node:timers/promises';
  export async function execute([{ inputs }]) {
    const [value] = inputs.get('VALUE').data;
    if (value > 0) appendFileSync(${JSON.stringify(begun)}, process.pid + '\\n');
    do await delay(10); while (value > 0 && !existsSync(${JSON.stringify(open)}));
    return [{ outputs: { VALUE: { datatype: 'INT32', shape: [1], data: new Int32Array([process.pid]) } } }];
  }`;
/** Has another model answer each request. */
const calls = (model: string) => `
  let context;
  export const initialize = (start) => { context = start.context; };
  const call = (request) => context.infer('${model}', { inputs: request.inputs }, { request });
  export const execute = (requests) => Promise.all(requests.map(call));`;
/** It closes at its size: nobody waits so long. */
const PAIRED = 'dynamic_batching { max_queue_delay_microseconds: 60000000 }';

/** Two steps, one after the other. */
const TWICE = `name: "twice" platform: "ensemble"
  input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
  output [ { name: "RESULT", data_type: TYPE_INT32, dims: [ 1 ] } ]
  ensemble_scheduling { step [
    { model_name: "echo" model_version: -1
      input_map { key: "VALUE" value: "VALUE" } output_map { key: "VALUE" value: "BETWEEN" } },
    { model_name: "echo" model_version: -1
      input_map { key: "VALUE" value: "BETWEEN" } output_map { key: "VALUE" value: "RESULT" } }
  ] }`;

const body = (id: string, shape = [1], value = 1) =>
  JSON.stringify({ id, inputs: [{ name: 'VALUE', datatype: 'INT32', shape, data: [value] }] });

const post = (url: string, text: string, headers: Record<string, string> = {}) =>
  fetch(url, { method: 'POST', body: text, headers });

async function explain(http: string, id: string): Promise<Explained> {
  const answer = await fetch(`${http}/nereid/v1/explain/${encodeURIComponent(id)}`);
  return answer.ok ? ((await answer.json()) as Explained) : { requests: [], unanswered: [] };
}

/** Once it is there: an answer may be faster than its batch's end. */
async function ended(http: string, id: string): Promise<Explained> {
  let told: Explained = { requests: [], unanswered: [] };
  await eventually(`the end of ${id} is known`, async () => {
    told = await explain(http, id);
    return told.requests[0]?.runs.some(({ state }) => state === 'ok') === true;
  });
  return told;
}

/** Runs a job to its end; its id. */
async function runJob(http: string, model: string, text: string, headers: Record<string, string> = {}) {
  const { id } = (await (await post(`${http}/v2/models/${model}/jobs`, text, headers)).json()) as { id: string };
  const result = await fetch(`${http}/v2/jobs/${id}/result?wait=30s`);
  expect(result.status).toBe(200);
  return id;
}

describe.each(MODES)('explain, in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let busy: ReturnType<typeof addGated>;

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('pair', ECHO, PAIRED, { maxBatchSize: 2 });
    folder.addJavaScript('echo', ECHO);
    mkdirSync(join(folder.path, 'twice', '1'), { recursive: true });
    writeFileSync(join(folder.path, 'twice', 'config.pbtxt'), TWICE);
    folder.addJavaScript('calls', calls('relays'));
    folder.addJavaScript('relays', calls('echo'));
    folder.addJavaScript('cached', ECHO, 'response_cache { enable: true }');
    busy = addGated(folder, 'busy');
    served = await deploy(mode, [folder.path], ['--cache-config=local,size=1000000']);
    for (const model of ['pair', 'echo', 'busy', 'twice', 'calls', 'relays', 'cached'])
      await modelReady(served.http, model);
  });
  afterAll(async () => {
    await served.stop();
    folder.remove();
  });

  test('two clients of one batch are named to each other, and why it was closed', async () => {
    const url = `${served.http}/v2/models/pair/infer`;
    const answers = await Promise.all(['a', 'b'].map((id) => post(url, body(id, [1, 1]))));
    const token = answers[0]?.headers.get('nereid-request-id') ?? '';
    for (const id of ['a', token]) {
      const { requests } = await ended(served.http, id);
      expect(requests).toMatchObject([
        { id: token, request_id: 'a', state: 'ok', call: { door: 'http', sends: 1 }, runs: [{ state: 'ok' }] },
      ]);
      const others = [{ request_id: 'b' }];
      expect(requests[0]?.runs[0]?.batch).toMatchObject({ close_reason: 'full', others, infer_ms: expect.any(Number) });
    }
    const { code, output } = await runCli(['explain', 'a', `--url=${served.http}`]).ended;
    expect([code, output]).toEqual([0, expect.stringMatching(/closed because it was full\n[\s\S]* with \S+ \(b\)\n/)]);
  });

  test('a queue behind a busy instance', async () => {
    const url = `${served.http}/v2/models/busy/infer`;
    const before = [1, 2, 3].map((value) => post(url, body(`before-${value}`, [1], value)));
    await eventually('three are there', async () => {
      const told = await explain(served.http, 'before-3');
      return told.requests[0]?.runs.length === 1 && busy.begun().length > 0;
    });
    const behind = post(url, body('behind'));
    await eventually('it is queued', async () => (await explain(served.http, 'behind')).requests[0]?.runs.length === 1);
    const [request] = (await explain(served.http, 'behind')).requests;
    const { waiting = 0, running = 0 } = request?.runs[0]?.found ?? {};
    expect([request?.state, waiting + running]).toEqual(['waiting', 3]);
    busy.open();
    await Promise.all([...before, behind]);
    expect((await ended(served.http, 'behind')).requests[0]?.state).toBe('ok');
  });

  test('a refused request tells why, and an unknown one is 404 and exit code 1', async () => {
    const refused = await post(`${served.http}/v2/models/echo/infer`, body('few', [2]));
    expect(refused.status).toBe(400);
    expect((await explain(served.http, 'few')).requests).toMatchObject([
      { state: 'error', error: { code: 'INVALID_ARG' }, runs: [] },
    ]);
    const { code, output } = await runCli(['explain', 'nobody', `--url=${served.http}`]).ended;
    expect([code, output]).toEqual([1, expect.stringMatching(/^nereid explain: no request 'nobody' is known here/)]);
  });

  test('an ensemble with its steps', async () => {
    expect((await post(`${served.http}/v2/models/twice/infer`, body('steps'))).status).toBe(200);
    await eventually('its steps are known', async () => {
      const [told] = (await explain(served.http, 'steps')).requests;
      return told?.calls.every(({ runs }) => runs[0]?.state === 'ok') === true && told.calls.length === 2;
    });
    const [request] = (await explain(served.http, 'steps')).requests;
    expect(request).toMatchObject({ model: 'twice', state: 'ok', runs: [{ state: 'ok' }] });
    const called = { model: 'echo', parent: request?.id, call: { door: 'inner' } };
    expect(request?.calls).toMatchObject(
      [0, 1].map((step) => ({ ...called, step, runs: [{ batch: expect.any(Object) }] })),
    );
  });

  test('a model that calls one that calls another', async () => {
    expect((await post(`${served.http}/v2/models/calls/infer`, body('tree'))).status).toBe(200);
    let told: ToldRequest | undefined;
    await eventually('all are over', async () => {
      // The calls have the client's id too: the newest of them may be told by itself.
      told = (await explain(served.http, 'tree')).requests.find(({ model }) => model === 'calls');
      return told?.runs[0]?.state === 'ok' && told.calls[0]?.calls[0]?.runs[0]?.state === 'ok';
    });
    const inner = { state: 'ok', call: { door: 'inner' }, runs: [{ batch: { requests: 1 } }] };
    const echo = { ...inner, model: 'echo', parent: told?.calls[0]?.id, calls: [] };
    expect(told).toMatchObject({ calls: [{ ...inner, model: 'relays', parent: told?.id, calls: [echo] }] });
  });

  test('an answer from the cache', async () => {
    const url = `${served.http}/v2/models/cached/infer`;
    for (const id of ['run', 'hit']) expect((await post(url, body(id, [1], 7))).status).toBe(200);
    expect((await ended(served.http, 'run')).requests).toMatchObject([{ runs: [{ state: 'ok' }] }]);
    const call = { door: 'http', sends: 0, cached: true };
    expect((await explain(served.http, 'hit')).requests).toMatchObject([{ state: 'ok', call, runs: [] }]);
    const { output } = await runCli(['explain', 'hit', `--url=${served.http}`]).ended;
    expect(output).toContain('answered from the response cache');
  });

  test('a job by its id and by its trace', async () => {
    const trace = randomUUID().replaceAll('-', '');
    const headers = { traceparent: `00-${trace}-00f067aa0ba902b7-01` };
    const id = await runJob(served.http, 'echo', body('job'), headers);
    for (const about of [id, trace]) {
      const { requests } = await ended(served.http, about);
      expect(requests, JSON.stringify(requests)).toMatchObject([
        { job: id, request_id: 'job', trace_id: trace, state: 'ok' },
      ]);
    }
    expect((await explain(served.http, id)).job).toMatchObject({ state: 'completed' });
  });
});

describe('explain over processes that die', () => {
  let folder: ModelFolder;
  let redis: PrivateRedis;
  let cluster: Cluster;
  const all: StartedProcess[] = [];

  const start = async (role: 'gateway' | 'coordinator' | 'worker') => {
    const process = await cluster.start(role).started;
    all.push(process);
    return process;
  };

  beforeAll(async () => {
    folder = createModelFolder();
    redis = await startPrivateRedis();
    cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
  });
  afterAll(async () => {
    for (const { process } of all) process.kill('SIGKILL');
    await Promise.all(all.map((one) => one.ended));
    await redis.stop();
    folder.remove();
  });

  test('a killed worker shows as a retry at the other gateway; a job is explained after restarts', async () => {
    const file = (name: string) => join(folder.path, name);
    folder.addJavaScript('held', HELD(file('begun'), file('open')));
    const begun = () => linesIn(file('begun')).map(Number);
    const roles = ['gateway', 'gateway', 'coordinator', 'worker', 'worker'] as const;
    const [first, second, coordinator] = await Promise.all(roles.map(start));
    const [http = '', other = ''] = [first?.http, second?.http];
    const url = `${http}/v2/models/held/infer`;
    await modelReady(http, 'held');
    const pids = async () => {
      const answers = await Promise.all(Array.from({ length: 8 }, () => post(url, body('pid', [1], 0))));
      const outputs = await Promise.all(answers.map((answer) => answer.json()));
      return new Set(outputs.map((each) => (each as { outputs: [{ data: [number] }] }).outputs[0].data[0]));
    };
    await eventually('both workers hold the model', async () => (await pids()).size === 2);
    const job = await runJob(http, 'held', body('job', [1], 0));
    const answer = post(url, body('mine'));
    await eventually('it runs', async () => begun().length === 1);
    all.find(({ process }) => process.pid === begun()[0])?.process.kill('SIGKILL');
    await eventually('it runs again', async () => begun().length === 2);
    writeFileSync(file('open'), '');
    expect((await answer).status).toBe(200);
    const told = await ended(other, 'mine');
    expect(told.unanswered).toEqual([]);
    expect(told.requests).toMatchObject([{ state: 'ok', runs: [{ losses: 1 }] }]);
    expect(told.requests[0]?.runs[0]?.events?.[0]?.what).toMatch(/^its batch was lost at wk-/);

    for (const one of [first, second, coordinator]) one?.process.kill('SIGKILL');
    const [, next] = await Promise.all([start('coordinator'), start('gateway')]);
    const [run] = (await explain(next?.http ?? '', job)).requests;
    expect(run).toMatchObject({ job, request_id: 'job', state: 'ok', runs: [{ batch: { close_reason: 'single' } }] });
    expect(run?.call).toBeUndefined();
  }, 120_000);
});
