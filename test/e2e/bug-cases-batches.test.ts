import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput } from './requests.ts';
import { addStepped, type SteppedModel } from './stepped-model.ts';
import { EXACT_TIMES, limitMs } from './time-limits.ts';

// Bug cases about what shares a batch; each name begins with the case's id.

const WINDOW_US = 300_000;
/** Nothing that a test waits for. */
const LONG_US = 600_000_000;
const CALLERS = 64;
const CALLERS_BATCH = 24;
const REPEATS = EXACT_TIMES ? 20 : 5;
/** A window, and as long again for the way. */
const IN_TIME_MS = 600;

const delayed = (us: number, more = '') => `dynamic_batching { max_queue_delay_microseconds: ${us} ${more} }`;

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const joins = addStepped(folder, 'joins', { maxBatchSize: 8, config: 'dynamic_batching { }' });
  const preferred = addStepped(folder, 'preferred', {
    maxBatchSize: 16,
    config: delayed(LONG_US, 'preferred_batch_size: [ 4, 8 ]'),
  });
  const shapes = addStepped(folder, 'shapes', { maxBatchSize: 8, dims: -1, config: delayed(WINDOW_US) });
  const fours = addStepped(folder, 'fours', { maxBatchSize: 4, config: delayed(WINDOW_US) });
  const callers = addStepped(folder, 'callers', { maxBatchSize: CALLERS_BATCH, config: delayed(50_000) });
  const left = addStepped(folder, 'left', { maxBatchSize: 8, config: delayed(WINDOW_US) });
  const all = [joins, preferred, shapes, fours, callers, left];
  let served: Deployment;

  beforeAll(async () => {
    for (const { letGo } of [fours, callers, left]) letGo();
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    for (const { letGo } of all) letGo();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  /** One request of so many rows, each of one value. */
  const send = ({ name }: SteppedModel, values: readonly number[]) =>
    infer(served.http, name, oneInput('VALUE', 'INT32', [values.length, 1], values));
  const waits = ({ name }: SteppedModel, requests: number) =>
    eventually(`${requests} wait at ${name}`, async () => {
      const pending = await metric(served.metrics, 'nv_inference_pending_request_count', { model: name });
      return pending === requests;
    });
  const begins = (model: SteppedModel, executions: number) =>
    eventually(`${model.name} executes ${executions}`, async () => model.executions().length === executions);
  const rowsOf = (model: SteppedModel) => model.executions().map((batch) => batch.map(({ length }) => length));
  const givesBack = (answers: readonly Answer[], sent: readonly (readonly number[])[]) =>
    expect(answers.map(({ status, outputs }) => [status, outputs.get('VALUE')?.data])).toEqual(
      sent.map((values) => [200, values]),
    );

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
    const apart = [
      [1, 2, 3],
      [4, 5, 6],
    ];
    givesBack(await Promise.all(apart.map((values) => send(fours, values))), apart);
    expect(rowsOf(fours)).toEqual([[3], [3]]);
    const together = [[7, 8, 9], [10]];
    givesBack(await Promise.all(together.map((values) => send(fours, values))), together);
    expect(
      rowsOf(fours)
        .slice(2)
        .map((rows) => rows.toSorted()),
    ).toEqual([[1, 3]]);
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
    const body = oneInput('VALUE', 'INT32', [1, 1], [0]);
    const message = `POST ${pathname} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
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
});
