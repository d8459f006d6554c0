import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type GrpcClient, grpcClient, valueRequest } from './grpc-client.ts';
import { eventually } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput } from './requests.ts';
import { addStepped, begins, type SteppedModel, waits as waitsAt } from './stepped-model.ts';
import { EXACT_TIMES, limitMs, limitRatio } from './time-limits.ts';

// Bug cases about what shares a batch, waits and is refused; each name begins with the case's id.

const WINDOW_US = 300_000;
/** Nothing that a test waits for. */
const LONG_US = 600_000_000;
const CALLERS = 64;
const CALLERS_BATCH = 24;
const REPEATS = EXACT_TIMES ? 20 : 5;
/** A window, and as long again for the way. */
const IN_TIME_MS = 600;
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

const delayed = (us: number, more = '') => `dynamic_batching { max_queue_delay_microseconds: ${us} ${more} }`;
const policy = (text: string) => `dynamic_batching { default_queue_policy { ${text} } }`;

interface Refusable {
  readonly status: number;
  readonly error: string | undefined;
  readonly retryAfter: string | null;
  readonly tookMs: number;
}

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const joins = addStepped(folder, 'joins', { maxBatchSize: 8, config: 'dynamic_batching { }' });
  const preferred = addStepped(folder, 'preferred', {
    maxBatchSize: 16,
    config: delayed(LONG_US, 'preferred_batch_size: [ 4, 8 ]'),
  });
  const shapes = addStepped(folder, 'shapes', { maxBatchSize: 8, dims: -1, config: delayed(WINDOW_US) });
  const fours = addStepped(folder, 'fours', { maxBatchSize: 4, config: delayed(LONG_US) });
  const callers = addStepped(folder, 'callers', { maxBatchSize: CALLERS_BATCH, config: delayed(50_000) });
  const left = addStepped(folder, 'left', { maxBatchSize: 8, config: delayed(WINDOW_US) });
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
  const all = [
    ...[joins, preferred, shapes, fours, callers, left],
    ...[two, full, expiring, levels, noLevels, noBatching, steady],
  ];
  let served: Deployment;
  let client: GrpcClient;

  beforeAll(async () => {
    for (const { letGo } of [fours, callers, left, noLevels, noBatching, steady]) letGo();
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

  /** One request of so many rows, each of one value. */
  const send = ({ name }: SteppedModel, values: readonly number[]) =>
    infer(served.http, name, oneInput('VALUE', 'INT32', [values.length, 1], values));
  const body = (value: number, parameters?: object) =>
    JSON.stringify({ ...JSON.parse(oneInput('VALUE', 'INT32', [1, 1], [value])), parameters });
  /** One that may be refused. */
  const attempt = async ({ name }: SteppedModel, value: number, parameters?: object): Promise<Refusable> => {
    const began = performance.now();
    const url = `${served.http}/v2/models/${name}/infer`;
    const response = await fetch(url, { method: 'POST', body: body(value, parameters) });
    const { error }: { error?: string } = JSON.parse(await response.text());
    const retryAfter = response.headers.get('retry-after');
    return { status: response.status, error, retryAfter, tookMs: performance.now() - began };
  };
  const call = ({ name }: SteppedModel, value: number, more = {}) =>
    client.infer(valueRequest(name, value, { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1] }], ...more }));
  const waits = (model: SteppedModel, requests: number) => waitsAt(served.metrics, model, requests);
  const rowsOf = (model: SteppedModel) => model.executions().map((batch) => batch.map(({ length }) => length));
  const givesBack = (answers: readonly Answer[], sent: readonly (readonly number[])[]) =>
    expect(answers.map(({ status, outputs }) => [status, outputs.get('VALUE')?.data])).toEqual(
      sent.map((values) => [200, values]),
    );
  const order = (model: SteppedModel) => model.executions().flat(2);

  test('BC-049: four requests that wait for a busy instance are one execution', async () => {
    const first = send(joins, [1]);
    await begins(joins, 1);
    const others = [2, 3, 4, 5].map((value) => send(joins, [value]));
    await waits(joins, 4);
    joins.letGo();
    givesBack(await Promise.all([first, ...others]), [[1], [2], [3], [4], [5]]);
    expect(rowsOf(joins)).toEqual([[1], [1, 1, 1, 1]]);
  });

  test('BC-050: of nine rows behind a busy instance the largest preferred size goes, the ninth waits', async () => {
    const blocker = send(preferred, Array(8).fill(0));
    await begins(preferred, 1);
    const rows: ReturnType<typeof send>[] = [];
    for (let value = 1; value <= 9; value++) {
      rows.push(send(preferred, [value]));
      await waits(preferred, value);
    }
    preferred.letGo(2);
    givesBack(await Promise.all([blocker, ...rows.slice(0, 8)]), [
      Array(8).fill(0),
      ...Array.from({ length: 8 }, (_, index) => [index + 1]),
    ]);
    await waits(preferred, 1);
    expect(rowsOf(preferred)).toEqual([[8], Array(8).fill(1)]);
    // The ninth is still there: three more make four of it.
    preferred.letGo();
    givesBack(await Promise.all([...rows.slice(8), send(preferred, [10, 11, 12])]), [[9], [10, 11, 12]]);
    expect(rowsOf(preferred)[2]).toEqual([1, 3]);
  });

  test('BC-052: shapes that come in turns are executed apart, each with its own values', async () => {
    const sent = [
      [1, 2],
      [3, 4, 5],
      [6, 7],
    ];
    const answers: Promise<Answer>[] = [];
    const ask = (values: readonly number[]) =>
      answers.push(infer(served.http, shapes.name, oneInput('VALUE', 'INT32', [1, values.length], values)));
    const blocker = infer(served.http, shapes.name, oneInput('VALUE', 'INT32', [8, 1], Array(8).fill(0)));
    await begins(shapes, 1);
    for (const [index, values] of sent.entries()) {
      ask(values);
      await waits(shapes, index + 1);
    }
    shapes.letGo();
    givesBack(await Promise.all(answers), sent);
    expect((await blocker).status).toBe(200);
    expect(shapes.executions().slice(1)).toEqual(sent.map((values) => [values]));
    // Within one window, in whatever order they come.
    answers.length = 0;
    for (const values of sent) ask(values);
    givesBack(await Promise.all(answers), sent);
    for (const batch of shapes.executions()) expect(new Set(batch.map(({ length }) => length)).size).toBe(1);
  });

  test('BC-053: three rows and three go apart, three and one together', async () => {
    const sent = [[1, 2, 3], [4, 5, 6], [7]];
    const answers = sent.slice(0, 2).map((values) => send(fours, values));
    // The one that came second has closed the other's batch, and waits for company.
    await Promise.race(answers);
    answers.push(send(fours, [7]));
    givesBack(await Promise.all(answers), sent);
    expect(rowsOf(fours)).toEqual([[3], [3, 1]]);
  });

  test(`BC-055: ${CALLERS} callers at once get their own rows, ${REPEATS} times`, async () => {
    const sent = Array.from({ length: CALLERS }, (_, index) => [index + 1]);
    for (let repeat = 0; repeat < REPEATS; repeat++) {
      givesBack(await Promise.all(sent.map((values) => send(callers, values))), sent);
    }
    const sizes = callers.executions().map(({ length }) => length);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(CALLERS_BATCH);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(CALLERS * REPEATS);
  });

  test('BC-056: clients that leave within the window keep nobody else waiting', async () => {
    const { hostname, port, pathname } = new URL(`${served.http}/v2/models/${left.name}/infer`);
    const text = body(0);
    const message = `POST ${pathname} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
    for (let gone = 0; gone < 3; gone++) {
      const socket = connect(Number(port), hostname);
      await once(socket, 'connect');
      socket.write(message);
      // Written out to the kernel; the request is read although nobody waits for its answer.
      socket.destroySoon();
    }
    for (const value of [1, 2]) {
      const began = performance.now();
      givesBack([await send(left, [value])], [[value]]);
      expect(performance.now() - began).toBeLessThan(limitMs(IN_TIME_MS));
    }
  });

  test('BC-058: of six requests one runs, two wait and three are refused at once', async () => {
    const first = attempt(two, 1);
    await begins(two, 1);
    const waiting = [2, 3].map((value) => attempt(two, value));
    await waits(two, 2);
    for (const value of [4, 5, 6]) {
      const refusal = await attempt(two, value);
      expect(refusal).toMatchObject({ status: 503, error: expect.stringMatching(FULL) });
      expect(refusal.tookMs).toBeLessThan(limitMs(AT_ONCE_MS));
    }
    expect(two.executions()).toEqual([[[1]]]);
    two.letGo();
    for (const answer of await Promise.all([first, ...waiting])) expect(answer.status).toBe(200);
    expect(order(two).toSorted()).toEqual([1, 2, 3]);
  });

  test('BC-059: a request past its time is refused while the instance is busy', async () => {
    const blocker = attempt(expiring, 1);
    await begins(expiring, 1);
    const refusal = await attempt(expiring, 2);
    expect(refusal).toMatchObject({ status: 503, error: expect.stringMatching(/Request timeout expired/) });
    expect(refusal.tookMs).toBeLessThan(limitMs(EXPIRED_MS));
    expect(expiring.executions()).toEqual([[[1]]]);
    expiring.letGo();
    expect((await blocker).status).toBe(200);
    expect(order(expiring)).toEqual([1]);
  });

  test('BC-061: levels go in their order, and what names none is of the default level', async () => {
    const answers = [attempt(levels, 100)];
    await begins(levels, 1);
    for (const [index, priority] of [3, 2, 1, 0, 9].entries()) {
      answers.push(attempt(levels, priority, { priority }));
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
    expect((await attempt(model, 1, { priority: 3 })).status).toBe(200);
    const { code } = await call(model, 2, { parameters: { priority: { uint64_param: 3 } } });
    expect(code).toBe(status.OK);
    expect(order(model)).toEqual([1, 2]);
  });

  test('BC-065: overload is refused at once, over HTTP and gRPC', async () => {
    const accepted = [attempt(full, 0)];
    await begins(full, 1);
    const others = Array.from({ length: 19 }, (_, index) => attempt(full, index + 1));
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
      const ended = await Promise.all(answers);
      expect(ended.filter(({ status: code }) => code !== 200)).toEqual([]);
      const within = (fromMs: number) => ended.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + STEADY_WINDOW_MS);
      const first = within(0).length;
      const last = within(STEADY_MS - STEADY_WINDOW_MS).length;
      expect(first).toBeGreaterThan(0);
      expect(last * limitRatio(1)).toBeGreaterThanOrEqual(STEADY_RATIO * first);
    },
    STEADY_TIMEOUT_MS,
  );
});
