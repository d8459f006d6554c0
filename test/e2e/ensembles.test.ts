import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { addEnsemble, addPairing } from './ensemble-models.ts';
import { addGated, type GatedModel } from './gated-model.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

// Ensembles of JavaScript models, each on one of two workers where roles are apart. Names that begin with a case's id are
// bug cases.

const PARALLEL = 300;
const ECHO =
  'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get("VALUE") } }));';
/** But for what is below 0. */
const ECHOES = `export const execute = (requests) => requests.map(({ inputs }) => {
  const VALUE = inputs.get('VALUE');
  return VALUE.data[0] < 0 ? Object.assign(new Error('not today'), { code: 'NOT_FOUND' }) : { outputs: { VALUE } };
});`;
const SLOW = `
  import { setTimeout as delay } from 'node:timers/promises';
  export async function execute(requests) {
    await delay(30);
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
  }`;
/** Answers as often as VALUE says, counting from 0. */
const COUNTS = `
  async function* answers({ inputs }) {
    const [count] = inputs.get('VALUE').data;
    for (let value = 0; value < count; value++) yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(value) } } };
  }
  export const execute = (requests) => requests.map(answers);`;
const DOUBLES = `export const execute = (requests) => requests.map(({ inputs }) => {
  const VALUE = inputs.get('VALUE');
  return { outputs: { VALUE: { ...VALUE, data: VALUE.data.map((each) => each * 2) } } };
});`;

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let ranked: GatedModel;
  let bounded: GatedModel;
  let left: GatedModel;

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('plain', ECHOES, '', { dims: -1 });
    const sides = { outputs: ['LEFT', 'RIGHT'], dims: 2 };
    addEnsemble(folder, 'fans_out', ['VALUE>plain>x', 'x>plain>LEFT', 'x>plain>RIGHT'], sides);
    folder.addJavaScript('echo', ECHO, 'dynamic_batching { }', { maxBatchSize: 8 });
    folder.addJavaScript('full', SLOW, 'dynamic_batching { default_queue_policy { max_queue_size: 1 } }', {
      maxBatchSize: 1,
    });
    addEnsemble(folder, 'fills', ['VALUE>echo>x', 'x>full>OUT'], { maxBatchSize: 1 });
    addPairing(folder, 'pairs');
    addEnsemble(folder, 'crosses', ['VALUE>echo>x', 'x>echo>y', 'y,x>pairs>OUT'], { maxBatchSize: 8 });
    const levels = 'dynamic_batching { priority_levels: 3 default_priority_level: 2 }';
    ranked = addGated(folder, 'ranked', { config: levels, maxBatchSize: 1 });
    addEnsemble(folder, 'ranks', ['VALUE>echo>x', 'x>ranked>OUT'], { maxBatchSize: 1 });
    folder.addJavaScript('counts', COUNTS, 'model_transaction_policy { decoupled: true }');
    folder.addJavaScript('doubles', DOUBLES);
    addEnsemble(folder, 'broken', ['VALUE>doubles>x', 'x>plain>OUT']);
    addEnsemble(folder, 'streams', ['VALUE>counts>x', 'x>doubles>OUT']);
    bounded = addGated(folder, 'bounded', { instances: '{ count: 3, kind: KIND_CPU }' });
    addEnsemble(folder, 'one_at_a_time', ['VALUE>plain>x', 'x>bounded>OUT'], { more: 'max_inflight_requests: 1' });
    left = addGated(folder, 'left');
    addEnsemble(folder, 'leaves', ['VALUE>left>x', 'x>plain>OUT']);
    addEnsemble(folder, 'stops', ['VALUE>left>x', 'x>plain>y', 'y>doubles>OUT']);
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    for (const { open } of [ranked, bounded, left]) open();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const ask = (model: string, value: number, batched = true) =>
    infer(served.http, model, oneInput('VALUE', 'INT32', batched ? [1, 1] : [1], [value]));
  const counted = (name: string, model: string, labels = {}) => metric(served.metrics, name, { model, ...labels });

  test('BC-115: one tensor used by two steps', async () => {
    const { status, outputs } = await infer(served.http, 'fans_out', oneInput('VALUE', 'INT32', [2], [1, 2]));
    expect(status).toBe(200);
    expect([outputs.get('LEFT')?.data, outputs.get('RIGHT')?.data]).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  test('BC-116: a full queue of a step refuses, and hangs nothing', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, (_, value) => ask('fills', value)));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(10);
    for (const { status, error } of refused) {
      expect([status, error]).toEqual([
        503,
        "in ensemble 'fills', [request id: <id_unknown>] Exceeds maximum queue size",
      ]);
    }
    expect((await ask('fills', 11)).outputs.get('OUT')?.data).toEqual([11]);
  });

  test('BC-118: of many requests side by side each gets what is its own', async () => {
    const values = Array.from({ length: PARALLEL }, (_, value) => value);
    const answers = await Promise.all(values.map((value) => ask('crosses', value)));
    expect(answers.map(({ outputs }) => outputs.get('OUT')?.data?.[0])).toEqual(values.map((value) => value * 1001));
    // With roles apart a copy of one that is over already may run again.
    await eventually(
      'all are counted',
      async () => (await counted('nv_inference_request_success', 'crosses')) >= PARALLEL,
    );
    expect(await counted('nv_inference_request_success', 'pairs')).toBeGreaterThanOrEqual(PARALLEL);
    // Steps of different requests share batches.
    expect(await counted('nv_inference_exec_count', 'echo')).toBeLessThan(await counted('nv_inference_count', 'echo'));
  });

  test('BC-119: priorities hold within the pipeline', async () => {
    const withPriority = (priority: number) =>
      infer(
        served.http,
        'ranks',
        JSON.stringify({
          parameters: { priority },
          inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [priority] }],
        }),
      );
    const blocker = ask('ranked', 0);
    await eventually('it is blocked', async () => ranked.begun().length === 1);
    const answers = [3, 2, 1].map(withPriority);
    await eventually('three wait', async () => (await counted('nv_inference_pending_request_count', 'ranked')) === 3);
    ranked.open();
    for (const { status } of await Promise.all([blocker, ...answers])) expect(status).toBe(200);
    expect(ranked.begun()).toEqual([0, 1, 2, 3]);
  });

  test('a step’s error comes with its code, and is counted', async () => {
    const { status, error } = await ask('broken', -1, false);
    expect([status, error]).toEqual([404, "in ensemble 'broken', not today"]);
    await eventually(
      'it is counted',
      async () => (await counted('nv_inference_request_failure', 'broken', { reason: 'OTHER' })) === 1,
    );
  });

  test('a decoupled step streams its answers through the steps behind it', async () => {
    const response = await fetch(`${served.http}/v2/models/streams/generate_stream`, {
      method: 'POST',
      body: JSON.stringify({ VALUE: 4 }),
    });
    const events = (await response.text()).split('\n\n').filter((event) => event !== '');
    const values = events.map((event) => JSON.parse(event.replace('data: ', ''))).map(({ OUT }) => OUT);
    expect(values.toSorted()).toEqual([0, 2, 4, 6]);
  });

  test('max_inflight_requests bounds a step over all requests', async () => {
    const answers = [1, 2, 3].map((value) => ask('one_at_a_time', value, false));
    await eventually('one runs', async () => bounded.begun().length === 1);
    const direct = ask('bounded', 9, false);
    await eventually('its model takes another', async () => bounded.begun().length === 2);
    expect(bounded.begun()[1]).toBe(9);
    bounded.open();
    for (const { status } of await Promise.all([direct, ...answers])) expect(status).toBe(200);
  });

  test('a client that leaves cancels the step that runs', async () => {
    const leaving = new AbortController();
    const body = oneInput('VALUE', 'INT32', [1], [5]);
    const gone = fetch(`${served.http}/v2/models/leaves/infer`, { method: 'POST', body, signal: leaving.signal }).catch(
      () => 'gone',
    );
    await eventually('the step runs', async () => left.begun().length === 1);
    leaving.abort();
    expect(await gone).toBe('gone');
    await eventually('the step is told', async () => left.aborted().length === 1);
    await eventually(
      'it is counted',
      async () => (await counted('nv_inference_request_failure', 'leaves', { reason: 'CANCELED' })) === 1,
    );
  });

  test('a job', async () => {
    const submitted = await fetch(`${served.http}/v2/models/crosses/jobs`, {
      method: 'POST',
      body: oneInput('VALUE', 'INT32', [1, 1], [7]),
    });
    expect(submitted.status).toBe(202);
    const { result_url } = (await submitted.json()) as { result_url: string };
    const result = await fetch(`${served.http}${result_url}?wait=20s`);
    expect(result.status).toBe(200);
    expect(((await result.json()) as { outputs: { data: number[] }[] }).outputs[0]?.data).toEqual([7007]);
  });

  test('who stops serves the steps of the runs that it has accepted', async () => {
    const answer = ask('stops', 21, false);
    await eventually('it runs', async () => left.begun().includes(21));
    const [owner] = served.coordinators;
    owner?.process.kill('SIGTERM');
    await owner?.waitFor(/SIGTERM received/);
    left.open();
    expect((await answer).outputs.get('OUT')?.data).toEqual([42]);
  });
});
