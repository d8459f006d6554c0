/** Priorities, queue policies and eager closing from door to model, as docs/batching.md has them. */
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type GrpcClient, grpcClient, valueRequest } from './grpc-client.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';
import { addStepped, begins, type SteppedModel, waits as waitsAt } from './stepped-model.ts';

/** Over before anybody can look. */
const OVER_AT_ONCE_US = 1;
/** Nothing that a test waits for. */
const LONG_US = 600_000_000;
const EXPIRED = { status: 503, error: 'Request timeout expired' };
const CLIENTS = 8;
const ROUNDS = 25;
const LONE_ROUNDS = 5;
const DELAY_US = 300_000;
/** 10 ms for each batch. */
const RUN = `
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    await setTimeout(10);
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
  }`;
const EAGER = `dynamic_batching { max_queue_delay_microseconds: ${DELAY_US} }
  parameters { key: "nereid.eager_batch" value: { string_value: "true" } }`;

const policy = (text: string) => `dynamic_batching { default_queue_policy { ${text} } }`;

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const one = (name: string, config: string) => addStepped(folder, name, { maxBatchSize: 1, config });
  const delaying = one(
    'delaying',
    `dynamic_batching {
      priority_levels: 2 default_priority_level: 1
      default_queue_policy {
        timeout_action: DELAY default_timeout_microseconds: ${LONG_US} allow_timeout_override: true
      }
    }`,
  );
  const overriding = one('overriding', policy(`default_timeout_microseconds: ${LONG_US} allow_timeout_override: true`));
  const sized = one(
    'sized',
    `dynamic_batching {
      priority_levels: 2 default_priority_level: 2
      default_queue_policy { max_queue_size: 2 }
      priority_queue_policy { key: 1 value { max_queue_size: 1 } }
    }`,
  );
  const mixing = addStepped(folder, 'mixing', {
    maxBatchSize: 4,
    config: 'dynamic_batching { priority_levels: 2 default_priority_level: 2 }',
  });
  const expiring = one('expiring', policy('default_timeout_microseconds: 100000'));
  const all = [delaying, overriding, sized, mixing, expiring];
  const eager = ['lone', 'loop'] as const;
  let served: Deployment;
  let client: GrpcClient;

  beforeAll(async () => {
    for (const name of eager) folder.addJavaScript(name, RUN, EAGER, { maxBatchSize: 8 });
    served = await deploy(mode, [folder.path]);
    client = grpcClient(served.gateways[0]?.grpc ?? '');
  });
  afterAll(async () => {
    client.close();
    for (const { letGo } of all) letGo();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const body = (values: readonly number[], parameters?: object) =>
    JSON.stringify({ ...JSON.parse(oneInput('VALUE', 'INT32', [values.length, 1], values)), parameters });
  const send = ({ name }: SteppedModel, values: readonly number[], parameters?: object) =>
    infer(served.http, name, body(values, parameters));
  const waits = (model: SteppedModel, requests: number) => waitsAt(served.metrics, model, requests);

  test('DELAY: a late request is behind fresh ones of its level, before the next level', async () => {
    const answers = [send(delaying, [0])];
    await begins(delaying, 1);
    answers.push(send(delaying, [1], { timeout: OVER_AT_ONCE_US }));
    await waits(delaying, 1);
    answers.push(send(delaying, [2], { priority: 2 }), send(delaying, [3]));
    await waits(delaying, 3);
    delaying.letGo();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
    expect(delaying.executions().flat(2)).toEqual([0, 3, 1, 2]);
  });

  test('a time-out of its own ends a request, over HTTP and gRPC, where it is smaller', async () => {
    const answers = [send(overriding, [0])];
    await begins(overriding, 1);
    answers.push(send(overriding, [1], { timeout: 2 * LONG_US }));
    await waits(overriding, 1);
    expect(await send(overriding, [2], { timeout: 20_000 })).toMatchObject(EXPIRED);
    const called = await client.infer(
      valueRequest(overriding.name, 3, {
        inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1] }],
        parameters: { timeout: { int64_param: 20_000 } },
      }),
    );
    expect([called.code, called.details]).toEqual([status.UNAVAILABLE, EXPIRED.error]);
    expect(
      await metric(served.metrics, 'nv_inference_request_failure', { model: overriding.name, reason: 'REJECTED' }),
    ).toBe(2);
    overriding.letGo();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
    expect(overriding.executions().flat(2)).toEqual([0, 1]);
  });

  test('each level has its own size', async () => {
    const answers = [send(sized, [0])];
    await begins(sized, 1);
    answers.push(send(sized, [1], { priority: 1 }), send(sized, [2]), send(sized, [3]));
    await waits(sized, 3);
    const refused = { status: 503, error: '[request id: <id_unknown>] Exceeds maximum queue size' };
    expect(await send(sized, [4], { priority: 1 })).toMatchObject(refused);
    expect(await send(sized, [5])).toMatchObject(refused);
    sized.letGo();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
    expect(sized.executions().flat(2).slice(0, 2)).toEqual([0, 1]);
  });

  test('a batch mixes levels, the higher ones first', async () => {
    const answers = [send(mixing, [0, 0, 0, 0])];
    await begins(mixing, 1);
    for (const [index, priority] of [2, 2, 1, 1, 1].entries()) {
      answers.push(send(mixing, [index + 1], { priority }));
      await waits(mixing, index + 1);
    }
    mixing.letGo();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
    expect(mixing.executions().slice(1)).toEqual([[[3], [4], [5], [1]], [[2]]]);
  });

  test.runIf(mode === 'apart')('a job outlives the time-out that ends a request beside it', async () => {
    const running = send(expiring, [0]);
    await begins(expiring, 1);
    const url = `${served.http}/v2/models/${expiring.name}/jobs`;
    const submitted = await fetch(url, { method: 'POST', body: body([1]) });
    expect(submitted.status).toBe(202);
    await waits(expiring, 1);
    expect(await send(expiring, [2])).toMatchObject(EXPIRED);
    expiring.letGo();
    expect((await running).status).toBe(200);
    const { id }: { id: string } = JSON.parse(await submitted.text());
    const result = await fetch(`${served.http}/v2/jobs/${id}/result?wait=20s`);
    expect(result.status).toBe(200);
    expect(expiring.executions().flat(2)).toEqual([0, 1]);
  });

  const askEager = (model: (typeof eager)[number], gateway: number, value: number) =>
    infer(
      served.gateways[gateway % served.gateways.length]?.http ?? '',
      model,
      oneInput('VALUE', 'INT32', [1, 1], [value]),
    );
  const counted = (model: (typeof eager)[number], name: string, labels: Record<string, string> = {}) =>
    metric(served.metrics, name, { model, ...labels });

  test('nereid.eager_batch: a lone client never waits for the delay', async () => {
    for (let round = 0; round < LONE_ROUNDS; round++) {
      const { outputs } = await askEager('lone', round, round);
      expect(outputs.get('VALUE')?.data).toEqual([round]);
    }
    await eventually('all are counted', async () => (await counted('lone', 'nv_inference_count')) === LONE_ROUNDS);
    expect(await counted('lone', 'nereid_batch_size_count', { reason: 'alone' })).toBe(LONE_ROUNDS);
  });

  test('nereid.eager_batch: 8 clients that ask again at once fill batches of 8', async () => {
    const client = async (index: number) => {
      for (let round = 0; round < ROUNDS; round++) {
        expect((await askEager('loop', index, round)).status).toBe(200);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
    const requests = () => counted('loop', 'nv_inference_count');
    await eventually('all are counted', async () => (await requests()) === CLIENTS * ROUNDS);
    expect((await requests()) / (await counted('loop', 'nv_inference_exec_count'))).toBeGreaterThanOrEqual(6);
  });
});
