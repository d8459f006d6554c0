/** Batches of requests from file to results, in one process and in a cluster; and the death of the coordinator that runs one. */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, type Deployment, deploy, MODES } from '../deployment.mjs';
import { createModelFolder } from './model-folder.ts';

const ECHO = `export const execute = (requests) => requests.map(({ inputs }) => {
  const value = inputs.get('VALUE');
  if (value.data[0] === 13) return new Error('thirteen');
  return { outputs: { VALUE: value } };
});`;
const SLOW = `export async function execute(requests) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
}`;
const TWICE = `export const execute = (requests) => requests.map(async function* ({ inputs }) {
  yield { outputs: { VALUE: inputs.get('VALUE') } };
  yield { outputs: { VALUE: inputs.get('VALUE') } };
});`;

const models = createModelFolder();
models.addJavaScript('echo', ECHO, 'dynamic_batching {}', { maxBatchSize: 8 });
models.addJavaScript('slow', SLOW, 'dynamic_batching {}', { maxBatchSize: 4 });
models.addJavaScript('twice', TWICE, 'model_transaction_policy { decoupled: true }');
models.addJavaScript('steps', ECHO, 'sequence_batching {}', { maxBatchSize: 4 });
models.addJavaScript('never', ECHO, 'parameters { key: "nereid.bulk" value { string_value: "off" } }');
let deployment: Deployment | undefined;

afterAll(() => models.remove());

const http = () => deployment?.http ?? '';
const request = (value: number, shape = [1, 1]) => ({
  inputs: [{ name: 'VALUE', datatype: 'INT32', shape, data: [value] }],
});
const line = (value: number, more: object = {}) =>
  JSON.stringify({ custom_id: `n${value}`, body: request(value), ...more });
const lines = (count: number) => Array.from({ length: count }, (_, value) => line(value));

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says
  readonly body: any;
}

async function call(
  method: string,
  path: string,
  body?: string | Buffer,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const answer = await fetch(`${http()}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}

const submit = (model: string, text: string | Buffer, headers: Record<string, string> = {}) =>
  call('POST', `/v2/models/${model}/batches`, text, { 'Content-Type': 'application/jsonl', ...headers });

/** Waits for it to be over. */
const over = async (id: string) => (await call('GET', `/v2/batches/${id}?wait=60s`)).body;

async function results(id: string, query = ''): Promise<Answer['body'][]> {
  const answer = await fetch(`${http()}/v2/batches/${id}/results${query}`);
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  const text = await answer.text();
  return text
    .split('\n')
    .filter(Boolean)
    .map((each) => JSON.parse(each));
}

describe.each(MODES)('batches, mode %s', (mode) => {
  beforeAll(async () => {
    deployment = await deploy(mode, [models.path]);
  });
  afterAll(async () => {
    await deployment?.stop();
  });

  test('run to their end: a result or an error for each line, in order, counted; refused where they cannot be', async () => {
    const mistakes = [
      '{"custom_id": 5}',
      'no json',
      line(3, { url: '/v2/models/other/infer' }),
      JSON.stringify({ body: request(1, [9]) }),
    ];
    const text = [...lines(300), '', ...mistakes].join('\r\n');
    const submitted = await submit('echo', gzipSync(text), { 'Content-Encoding': 'gzip' });
    expect(submitted.status).toBe(202);
    const { id } = submitted.body;
    expect(submitted.headers.get('location')).toBe(`/v2/batches/${id}`);
    expect(submitted.body).toMatchObject({
      state: 'waiting',
      model_name: 'echo',
      request_counts: { total: 304, completed: 0, failed: 0 },
    });
    expect(await over(id)).toMatchObject({
      state: 'completed',
      request_counts: { total: 304, completed: 299, failed: 5 },
    });

    const all = await results(id);
    expect(all.map((result) => result.line)).toEqual(Array.from({ length: 304 }, (_, index) => index));
    expect(all[7]).toMatchObject({
      custom_id: 'n7',
      error: null,
      response: { status_code: 200, body: { model_name: 'echo', outputs: [{ name: 'VALUE', data: [7] }] } },
    });
    const failed = await results(id, '?status=failed');
    expect(failed.map(({ line, error }) => [line, error.status_code, error.code, error.field])).toEqual([
      [13, 500, 'INTERNAL', undefined],
      [300, 400, 'INVALID_ARG', 'custom_id'],
      [301, 400, 'INVALID_ARG', undefined],
      [302, 400, 'INVALID_ARG', 'url'],
      [303, 400, 'INVALID_ARG', expect.anything()],
    ]);
    expect((await results(id, '?after=9&limit=2')).map((result) => result.line)).toEqual([10, 11]);

    const streamed = await submit('twice', JSON.stringify({ body: request(4, [1]) }));
    await over(streamed.body.id);
    const [answers] = await results(streamed.body.id);
    expect(answers.response.bodies.map(({ outputs }: Answer['body']) => outputs[0].data)).toEqual([[4], [4]]);

    const listed = (await call('GET', '/v2/models/echo/batches')).body;
    expect(listed).toMatchObject({ batches: [{ id }], next: null });
    expect((await call('DELETE', `/v2/batches/${id}`)).status).toBe(200);
    for (const path of [`/v2/batches/${id}`, `/v2/batches/${id}/results`, '/v2/batches/x']) {
      expect(await call('GET', path)).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
    }

    const refusals: readonly (readonly [string, string, Record<string, string>, number, RegExp])[] = [
      ['none', line(1), {}, 404, /unknown model/],
      ['steps', line(1), {}, 501, /send each as a job/],
      ['never', line(1), {}, 501, /'nereid.bulk' to 'off'/],
      ['echo', ' \n\n', {}, 400, /no lines/],
      ['echo', `${line(1)}\n${'x'.repeat(4_200_000)}\n`, {}, 413, /line 2 has more than/],
      ['echo', line(1), { 'Nereid-Attempts': '0' }, 400, /Nereid-Attempts must be/],
      ['echo', line(1), { 'Nereid-Webhook': 'http://localhost' }, 501, /Nereid-Webhook/],
      ['echo', line(1), { 'Content-Encoding': 'gzip' }, 400, /Content-Encoding/],
    ];
    for (const [model, body, headers, status, text] of refusals) {
      const refused = await submit(model, body, headers);
      expect([refused.status, refused.body.error], `${model} ${body.slice(0, 50)}`).toEqual([
        status,
        expect.stringMatching(text),
      ]);
    }
    expect((await call('GET', '/v2/models/echo/batches?limit=0')).body.field).toBe('limit');
  });

  test('come from a blob, and their lines name blobs', async () => {
    const put = async (body: Buffer) => {
      const headers = { 'Content-Type': 'application/octet-stream' };
      return (await call('POST', '/v2/blobs', body, headers)).body as { ref: string; byte_size: number };
    };
    const { ref, byte_size } = await put(Buffer.from(Int32Array.of(77).buffer));
    const named = (blob: object) =>
      JSON.stringify({ body: { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], blob }] } });
    const file = [
      line(5),
      named({ ref, byte_size }),
      named({ ref: 'blob-none', byte_size }),
      named({ ref, byte_size: 8 }),
    ];
    const { ref: input, byte_size: size } = await put(Buffer.from(file.join('\n')));
    const body = JSON.stringify({ input_blob: { ref: input, byte_size: size } });
    const { id } = (await submit('echo', body, { 'Content-Type': 'application/json' })).body;
    await over(id);
    const all = await results(id);
    expect(all.map(({ response, error }) => error?.field ?? response.body.outputs[0].data)).toEqual([
      [5],
      [77],
      'inputs[0].blob.ref',
      'inputs[0].blob.byte_size',
    ]);
  });

  test('end early: cancelled, or at their deadline, with the results that there are', async () => {
    const { id } = (await submit('slow', lines(2_000).join('\n'))).body;
    while ((await call('GET', `/v2/batches/${id}`)).body.request_counts.completed === 0);
    const cancelled = (await call('DELETE', `/v2/batches/${id}`)).body;
    const { completed } = cancelled.request_counts;
    expect(cancelled).toMatchObject({ state: 'cancelled', request_counts: { total: 2_000, failed: 0 } });
    expect(completed).toBeGreaterThan(0);
    expect(completed).toBeLessThan(2_000);

    const late = (await submit('slow', lines(2_000).join('\n'), { 'Nereid-Deadline-Ms': '1500' })).body;
    expect(late.deadline_at).toBeDefined();
    expect(await over(late.id)).toMatchObject({ state: 'expired' });
    expect(await results(id)).toHaveLength(completed);
    // Nothing is left of either that still runs.
    const next = (await submit('slow', line(1))).body;
    expect(await over(next.id)).toMatchObject({ state: 'completed' });
  });

  test.runIf(mode === 'apart')(
    'a batch whose coordinator dies goes on at the next: each line has one result',
    async () => {
      const { redis, coordinators = [] } = deployment ?? {};
      const { id } = (await submit('slow', lines(120).join('\n'))).body;
      while ((await call('GET', `/v2/batches/${id}`)).body.request_counts.completed < 8);
      for (const { process } of coordinators) process.kill('SIGKILL');
      if (redis === undefined) throw new Error('no Redis');
      const next = clusterOn(redis).start('coordinator', [`--model-repository=${models.path}`]);
      await next.started;
      try {
        expect(await over(id)).toMatchObject({
          state: 'completed',
          request_counts: { total: 120, completed: 120, failed: 0 },
        });
        expect((await results(id)).map(({ custom_id }) => custom_id)).toEqual(
          Array.from({ length: 120 }, (_, n) => `n${n}`),
        );
      } finally {
        next.process.kill('SIGTERM');
        await next.ended;
      }
    },
  );
});
