import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type GrpcClient, grpcClient, valueRequest } from './grpc-client.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';
import { addStepped, type SteppedModel } from './stepped-model.ts';
import { EXACT_TIMES, limitMs, limitRatio } from './time-limits.ts';

// Bug cases about waiting and being refused; each name begins with the case's id.

const AT_ONCE_MS = 100;
/** Of a request that may wait for 300 ms. */
const EXPIRED_MS = 1_200;
const STEADY_RUN_MS = 10;
const STEADY_INSTANCES = 2;
/** The load of BC-064, and the time at its beginning and end that is compared. */
const STEADY_MS = EXACT_TIMES ? 120_000 : 1_500;
const STEADY_WINDOW_MS = EXACT_TIMES ? 20_000 : 500;
const STEADY_TIMEOUT_MS = STEADY_MS + 30_000;
const STEADY_RATIO = 0.95;
const FULL = /Exceeds maximum queue size/;

const policy = (text: string) => `dynamic_batching { default_queue_policy { ${text} } }`;

interface Refusable {
  readonly status: number;
  readonly error: string | undefined;
  readonly retryAfter: string | null;
  readonly tookMs: number;
}

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const one = (name: string, config: string) => addStepped(folder, name, { maxBatchSize: 1, config });
  const two = one('two_wait', policy('max_queue_size: 2'));
  const full = one('one_waits', policy('max_queue_size: 1'));
  const expiring = one(
    'expiring',
    policy('timeout_action: REJECT default_timeout_microseconds: 300000 allow_timeout_override: true'),
  );
  const levels = one('levels', 'dynamic_batching { priority_levels: 3 default_priority_level: 2 }');
  const noLevels = one('no_levels', 'dynamic_batching { }');
  const noBatching = one('no_batching', '');
  const steady = addStepped(folder, 'steady', {
    maxBatchSize: 1,
    instances: STEADY_INSTANCES,
    runMs: STEADY_RUN_MS,
    config: `dynamic_batching {
      max_queue_delay_microseconds: 5000
      default_queue_policy { default_timeout_microseconds: 5000000 }
    }`,
  });
  const all = [two, full, expiring, levels, noLevels, noBatching, steady];
  let served: Deployment;
  let client: GrpcClient;

  beforeAll(async () => {
    for (const { letGo } of [noLevels, noBatching, steady]) letGo();
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

  const body = (value: number, parameters?: object) =>
    JSON.stringify({ ...JSON.parse(oneInput('VALUE', 'INT32', [1, 1], [value])), parameters });
  const send = async ({ name }: SteppedModel, value: number, parameters?: object): Promise<Refusable> => {
    const began = performance.now();
    const url = `${served.http}/v2/models/${name}/infer`;
    const response = await fetch(url, { method: 'POST', body: body(value, parameters) });
    const { error }: { error?: string } = JSON.parse(await response.text());
    const retryAfter = response.headers.get('retry-after');
    return { status: response.status, error, retryAfter, tookMs: performance.now() - began };
  };
  const rows = { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1] }] };
  const call = ({ name }: SteppedModel, value: number, more = {}) =>
    client.infer(valueRequest(name, value, { ...rows, ...more }));
  const waits = ({ name }: SteppedModel, requests: number) =>
    eventually(`${requests} wait at ${name}`, async () => {
      const pending = await metric(served.metrics, 'nv_inference_pending_request_count', { model: name });
      return pending === requests;
    });
  const begins = (model: SteppedModel, executions: number) =>
    eventually(`${model.name} executes ${executions}`, async () => model.executions().length === executions);
  const order = (model: SteppedModel) => model.executions().flat(2);

  test('BC-058: of six requests one runs, two wait and three are refused at once', async () => {
    const first = send(two, 1);
    await begins(two, 1);
    const waiting = [2, 3].map((value) => send(two, value));
    await waits(two, 2);
    for (const value of [4, 5, 6]) {
      const refusal = await send(two, value);
      expect(refusal).toMatchObject({ status: 503, error: expect.stringMatching(FULL) });
      expect(refusal.tookMs).toBeLessThan(limitMs(AT_ONCE_MS));
    }
    expect(two.executions()).toEqual([[[1]]]);
    two.letGo();
    for (const answer of await Promise.all([first, ...waiting])) expect(answer.status).toBe(200);
    expect(order(two).toSorted()).toEqual([1, 2, 3]);
  });

  test('BC-059: a request past its time is refused while the instance is busy', async () => {
    const blocker = send(expiring, 1);
    await begins(expiring, 1);
    const refusal = await send(expiring, 2);
    expect(refusal).toMatchObject({ status: 503, error: expect.stringMatching(/Request timeout expired/) });
    expect(refusal.tookMs).toBeLessThan(limitMs(EXPIRED_MS));
    expect(expiring.executions()).toEqual([[[1]]]);
    expiring.letGo();
    expect((await blocker).status).toBe(200);
    expect(order(expiring)).toEqual([1]);
  });

  test('BC-061: levels go in their order, and what names none is of the default level', async () => {
    const answers = [send(levels, 100)];
    await begins(levels, 1);
    for (const [index, priority] of [3, 2, 1, 0, 9].entries()) {
      answers.push(send(levels, priority, { priority }));
      await waits(levels, index + 1);
    }
    levels.letGo();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
    expect(order(levels)).toEqual([100, 1, 2, 0, 9, 3]);
  });

  test.each([
    ['without levels', noLevels],
    ['without batching', noBatching],
  ])('BC-062: a priority for a model %s is ignored', async (_, model) => {
    const shape = { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1] }] };
    expect((await send(model, 1, { priority: 3 })).status).toBe(200);
    const { code } = await call(model, 2, { ...shape, parameters: { priority: { uint64_param: 3 } } });
    expect(code).toBe(status.OK);
    expect(order(model)).toEqual([1, 2]);
  });

  test('BC-065: overload is refused at once, over HTTP and gRPC', async () => {
    const accepted = [send(full, 0)];
    await begins(full, 1);
    const others = Array.from({ length: 19 }, (_, index) => send(full, index + 1));
    const refused: Refusable[] = [];
    for (const answer of others) void answer.then((refusal) => refused.push(refusal));
    // All but the one that waits.
    await eventually('18 are refused', async () => refused.length === others.length - 1);
    for (const { status: code, error, retryAfter, tookMs } of refused) {
      expect([code, retryAfter]).toEqual([503, '1']);
      expect(error).toMatch(FULL);
      expect(tookMs).toBeLessThan(limitMs(AT_ONCE_MS));
    }
    const calls = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const began = performance.now();
        const { code, details } = await call(full, 100 + index);
        return { code, details, tookMs: performance.now() - began };
      }),
    );
    for (const { code, details, tookMs } of calls) {
      expect([code, details]).toEqual([status.UNAVAILABLE, expect.stringMatching(FULL)]);
      expect(tookMs).toBeLessThan(limitMs(AT_ONCE_MS));
    }
    full.letGo();
    const answers = await Promise.all([...accepted, ...others]);
    expect(answers.filter(({ status: code }) => code === 200)).toHaveLength(2);
  });

  test(
    'BC-064: a steady load at half of the capacity is as fast at its end as at its beginning',
    async () => {
      const gapMs = STEADY_RUN_MS / STEADY_INSTANCES / (1 / 2);
      const began = performance.now();
      const answers: Promise<{ readonly status: number; readonly atMs: number }>[] = [];
      for (let count = 0; performance.now() - began < STEADY_MS; count++) {
        const answered = infer(served.http, steady.name, body(count));
        answers.push(answered.then(({ status: code }) => ({ status: code, atMs: performance.now() - began })));
        // By the plan and not by the last one, so that what is late is caught up.
        await delay(Math.max(0, began + (count + 1) * gapMs - performance.now()));
      }
      const all = await Promise.all(answers);
      expect(all.filter(({ status: code }) => code !== 200)).toEqual([]);
      const within = (fromMs: number) => all.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + STEADY_WINDOW_MS);
      const first = within(0).length;
      const last = within(STEADY_MS - STEADY_WINDOW_MS).length;
      expect(first).toBeGreaterThan(0);
      expect(last * limitRatio(1)).toBeGreaterThanOrEqual(STEADY_RATIO * first);
    },
    STEADY_TIMEOUT_MS,
  );
});
