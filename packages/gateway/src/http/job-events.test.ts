import { encodeJobResult, type InferResponse } from '@nereid/protocol';
import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, createJobQueues, type JobQueues, type JobTaker, timing } from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { createJobs } from '../jobs.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];
let model: string;
let models = 0;
let queues: JobQueues;
let http: HttpFixture['http'];
let url: string;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  models++;
  model = `m${models}`;
  const clock = systemClock();
  const connector = connectRedis(server.url, { name: 'gateway:1' });
  queues = createJobQueues({ connector, timing: timing(), clock, log: createLog({ level: 'silent' }) });
  const records = [modelRecord(identity(model, 'FP32', '-1', 'model_transaction_policy { decoupled: true }'))];
  const fixture = await httpFixture({ models: records });
  const jobs = createJobs({ queues, directory: fixture.directory, clock, gateway: fixture.gateway });
  ({ http } = await httpFixture({ models: records, http: { jobs, gateway: fixture.gateway } }));
  ({ url } = await http.listen());
  cleanups.push(async () => {
    await http.close(100);
    await queues.close();
    connector.close();
    expect({ waiters: queues.waiters, timers: clock.liveTimers }).toEqual({ waiters: 0, timers: 0 });
  });
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

function response(value: number): InferResponse {
  const data = new Uint8Array(new Float32Array([value]).buffer);
  const outputs = [{ name: 'OUTPUT', datatype: 'FP32', shape: [1], data }] as const;
  return { modelName: model, modelVersion: '1', id: '', parameters: {}, outputs };
}

/** Takes the model's jobs as a coordinator does, and answers each by hand. */
function take() {
  const taken: string[] = [];
  const taker: JobTaker = queues.take(model, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken: ({ id }) => taken.push(id) > 0,
    lost: () => {},
  });
  cleanups.push(() => taker.close());
  let n = 0;
  return {
    taker,
    taken,
    async arrived() {
      await expect.poll(() => taken.length).toBe(1);
      return taken[0] ?? '';
    },
    answer(id: string, value: number) {
      n++;
      taker.progress(id, { n, outputs: encodeJobResult(response(value), 'b64').outputs }, 4);
    },
    complete: (id: string, value: number) => taker.complete(id, encodeJobResult(response(value), 'b64')),
  };
}

async function submit(more: object = {}): Promise<string> {
  const payload = { inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1], data: [1] }], ...more };
  const submitted = await http.inject({ method: 'POST', url: `/v2/models/${model}/jobs`, payload });
  expect(submitted.statusCode).toBe(202);
  return submitted.json().id;
}

interface Told {
  readonly id?: string;
  readonly event?: string;
  readonly data?: unknown;
}

function events(text: string): readonly Told[] {
  return text
    .split('\n\n')
    .map((block) => Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/, 2))))
    .filter((fields) => fields.event !== undefined)
    .map(({ id, event, data }) => ({ id, event, data: JSON.parse(data) }));
}

async function all(job: string, headers: Record<string, string> = {}): Promise<readonly Told[]> {
  const answer = await fetch(`${url}/v2/jobs/${job}/events`, { headers });
  expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  return events(await answer.text());
}

const names = (told: readonly Told[]) => told.map(({ event }) => event);

test('tells states, outputs as the result has them, and the end; each reader goes on where it was', async () => {
  const id = await submit();
  const following = all(id);
  const { arrived, answer, complete } = take();
  const own = await arrived();
  answer(own, 1.5);
  answer(own, 2.5);
  await complete(own, 2.5);
  const told = await following;
  const output = (n: number, data: number) => ({
    event: 'output',
    data: { n, outputs: [{ name: 'OUTPUT', datatype: 'FP32', shape: [1], data: [data] }] },
  });
  const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  expect(told).toMatchObject([
    { event: 'state', data: { id, state: 'waiting', at } },
    { event: 'state', data: { id, state: 'running', at } },
    output(1, 1.5),
    output(2, 2.5),
    { event: 'end', data: { id, state: 'completed', progress: { n: 2 }, result_url: `/v2/jobs/${id}/result` } },
  ]);
  expect((await all(id, { 'Last-Event-ID': told[1]?.id ?? '' })).map(({ data }) => data)).toEqual(
    told.slice(2).map(({ data }) => data),
  );
  const after = await fetch(`${url}/v2/jobs/${id}/events`, { headers: { 'Last-Event-ID': told.at(-1)?.id ?? '' } });
  expect({ status: after.status, text: await after.text() }).toEqual({ status: 204, text: '' });
  expect((await http.inject(`/v2/jobs/${id}`)).json()).toMatchObject({ state: 'completed', progress: { n: 2 } });
});

test('outputs are base64 where binary data are asked for', async () => {
  const id = await submit({ parameters: { binary_data_output: true } });
  const { arrived, answer, complete } = take();
  const own = await arrived();
  answer(own, 1.5);
  await complete(own, 1.5);
  const told = await all(id);
  expect(told.find(({ event }) => event === 'output')?.data).toEqual({
    n: 1,
    outputs: [{ name: 'OUTPUT', datatype: 'FP32', shape: [1], b64: 'AADAPw==' }],
  });
});

test('what whoever runs it says, errors among the answers, and the reason of its end', async () => {
  const id = await submit();
  const { taker, arrived } = take();
  const own = await arrived();
  taker.progress(own, 40, 1);
  taker.progress(own, { n: 1, error: { code: 'INTERNAL', message: 'x' } }, 1);
  await taker.fail(own, 'INTERNAL: x', false);
  const told = await all(id);
  expect(told.slice(2)).toMatchObject([
    { event: 'progress', data: 40 },
    { event: 'output', data: { n: 1, error: { code: 'INTERNAL', message: 'x' } } },
    { event: 'end', data: { state: 'failed', error: { code: 'INTERNAL', message: 'x' } } },
  ]);
});

test('where events are gone the job is told as it is', async () => {
  const id = await submit();
  const connector = connectRedis(server.url, { name: 'test:1' });
  const { client, ready, close } = connector.connect('test');
  cleanups.push(connector.close, close);
  await ready();
  await client.xtrim(`bull:infer.${model}:events`, 'MAXLEN', 0);
  const following = all(id);
  const { arrived, complete } = take();
  await complete(await arrived(), 1);
  const told = await following;
  expect(told[0]).toMatchObject({ event: 'state', data: { id, model_name: model } });
  expect(told[0]?.id).toBeUndefined();
  expect(told.at(-1)).toMatchObject({ event: 'end', data: { state: 'completed' } });
});

test('a client that leaves is no longer followed', async () => {
  const id = await submit();
  const leaving = new AbortController();
  const answer = await fetch(`${url}/v2/jobs/${id}/events`, { signal: leaving.signal });
  expect(answer.status).toBe(200);
  expect(queues.waiters).toBe(1);
  leaving.abort();
  await expect.poll(() => queues.waiters).toBe(0);
});

test('a server that stops ends the events, for their readers to go on elsewhere', async () => {
  const id = await submit();
  const answer = await fetch(`${url}/v2/jobs/${id}/events`);
  const text = answer.text();
  await http.close(10_000);
  expect(names(events(await text))).toEqual(['state']);
});

test.each([
  ['no such job', 'none~A', {}, 404, "job 'none~A' is not found"],
  ['no job at all', 'none', {}, 404, "job 'none' is not found"],
  ['no id of an event', 'm~A', { 'Last-Event-ID': 'x' }, 400, 'Last-Event-ID must be the id of an event'],
])('%s', async (_what, job, headers, status, text) => {
  const answer = await http.inject({ url: `/v2/jobs/${job}/events`, headers });
  expect(answer.statusCode).toBe(status);
  expect(answer.json().error).toContain(text);
});
