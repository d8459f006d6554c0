/** Batches over HTTP on a real Redis: what is refused and leaves nothing, what is told of each state, results page by page. */
import { gzipSync } from 'node:zlib';
import { LIMITS } from '@nereid/config';
import { createLog, systemClock } from '@nereid/runtime';
import {
  type BulkStore,
  connectRedis,
  createBulkStore,
  createJobQueues,
  type JobQueues,
  timing,
} from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBulk } from '../bulk.ts';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { createJobAdmission, type JobAdmission } from '../job-admission.ts';
import { createJobs } from '../jobs.ts';
import { httpFixture, openConnection, post } from './http-fixture.ts';

const clock = systemClock();
let redis: RedisServerFixture;
let connector: ReturnType<typeof connectRedis>;
let look: ReturnType<typeof connector.connect>;
let queues: JobQueues;
let store: BulkStore;
let url: string;
let http: Awaited<ReturnType<typeof httpFixture>>['http'];
/** What Redis says of its memory, and what becomes of it as lines are put. */
let admission: JobAdmission;

beforeAll(async () => {
  redis = await startRedisServer();
  connector = connectRedis(redis.url, { name: 'gateway:1' });
  queues = createJobQueues({ connector, timing: timing(), clock, log: createLog({ level: 'silent' }) });
  look = connector.connect('look');
  await look.ready();
  store = createBulkStore({ connector, prefix: 'nereid', clock, waitsForDisk: false });
  admission = createJobAdmission(queues, clock);
  const models = [modelRecord(identity('echo', 'FP32'))];
  const { directory, gateway } = await httpFixture({ models });
  const jobs = {
    ...createJobs({ queues, directory, clock, gateway }),
    admission: {
      refusal: (bytes: number) => admission.refusal(bytes),
      outlook: (bytes: number) => admission.outlook(bytes),
    },
  };
  const bulk = createBulk({ store, directory, jobs, payloads: queues.payloads, clock });
  ({ http } = await httpFixture({ models, http: { jobs, bulk } }));
  ({ url } = await http.listen());
});
afterAll(async () => {
  await http.close(100);
  store.close();
  look.close();
  await queues.close();
  connector.close();
  await redis.stop();
});

const line = (value: number) => JSON.stringify({ custom_id: `n${value}`, body: { inputs: [] } });
const file = (count: number) => Array.from({ length: count }, (_, value) => line(value)).join('\n');

async function call(method: string, path: string, body?: string | Buffer, headers: Record<string, string> = {}) {
  const type: Record<string, string> = body === undefined ? {} : { 'Content-Type': 'application/jsonl' };
  const init = { method, headers: { ...type, ...headers }, ...(body === undefined ? {} : { body }) };
  const answer = await fetch(`${url}${path}`, init);
  const text = await answer.text();
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says
  return { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) as any };
}

const submit = (body: string | Buffer, headers: Record<string, string> = {}) =>
  call('POST', '/v2/models/echo/batches', body, headers);

async function submitted(count: number): Promise<string> {
  const { status, body } = await submit(file(count));
  expect(status).toBe(202);
  return body.id;
}

async function keysLeft(): Promise<readonly string[]> {
  const { client } = look;
  const keys = (await client.call('KEYS', 'nereid:bulk*')) as string[];
  return keys.filter((key) => !key.startsWith('nereid:bulk-'));
}

const JSON_BODY = { 'Content-Type': 'application/json' };
const named = (blob: unknown) => JSON.stringify({ input_blob: blob });

describe('a file', () => {
  test.each<readonly [string, string | Buffer, Record<string, string>, number, string, string | undefined]>([
    ['of nothing', '', {}, 400, 'the file has no lines', undefined],
    ['of empty lines', '\r\n \n\t\n', {}, 400, 'the file has no lines', undefined],
    ['that is not UTF-8', Buffer.from([0x7b, 0x0a, 0xff, 0x0a]), {}, 400, 'line 2 is not UTF-8', undefined],
    [
      'with a long line',
      `${line(1)}\n${'x'.repeat(LIMITS.bulk_line_bytes_max + 1)}`,
      {},
      413,
      'line 2 has more than',
      undefined,
    ],
    ['of many lines', 'x\n'.repeat(LIMITS.bulk_lines_max + 1), {}, 413, 'a batch has up to 100000 lines', undefined],
    ['that is no gzip', line(1), { 'Content-Encoding': 'gzip' }, 400, 'the body is not what', 'Content-Encoding'],
    [
      'of half a gzip',
      gzipSync(file(500)).subarray(0, 400),
      { 'Content-Encoding': 'gzip' },
      400,
      'the body is not what',
      'Content-Encoding',
    ],
    [
      'in a strange coding',
      line(1),
      { 'Content-Encoding': 'br' },
      501,
      'Unsupported compression type',
      'Content-Encoding',
    ],
    ['as JSON', line(1), JSON_BODY, 400, 'a JSON body must be {input_blob', 'input_blob'],
    ['as what is no JSON', 'x', JSON_BODY, 400, 'a JSON body must be {input_blob', 'input_blob'],
    ['as long JSON', `"${'x'.repeat(20_000)}"`, JSON_BODY, 400, 'a JSON body must be {input_blob', 'input_blob'],
    ['named without a reference', named({}), JSON_BODY, 400, 'a JSON body must be {input_blob', 'input_blob'],
    [
      'named with a size that is none',
      named({ ref: 'x', byte_size: 'y' }),
      JSON_BODY,
      400,
      'a JSON body must',
      'input_blob',
    ],
    ['that was never put', named({ ref: 'blob-x' }), JSON_BODY, 404, "blob 'blob-x' is not there", 'input_blob.ref'],
  ])('%s is refused, and nothing is left of it', async (_what, body, headers, status, text, field) => {
    const refused = await submit(body, headers);
    expect([refused.status, refused.body]).toEqual([
      status,
      { error: expect.stringContaining(text), code: expect.any(String), field },
    ]);
    expect(await keysLeft()).toEqual([]);
    expect((await call('GET', '/v2/models/echo/batches')).body).toEqual({ batches: [], next: null });
  });

  test('whose announced length is too much is refused before it is read', async () => {
    const connection = await openConnection(url);
    const head = post('/v2/models/echo/batches', '').replace(
      'Content-Length: 0',
      `Content-Length: ${LIMITS.bulk_bytes_max + 1}`,
    );
    connection.socket.write(head);
    expect(await connection.until(/up to [0-9]+ bytes/)).toMatch(/^HTTP\/1.1 413 /);
    connection.socket.destroy();
  });

  test.each<readonly [string, JobAdmission]>([
    [
      'before it is read',
      createJobAdmission({ url: 'unix:///r', memory: async () => ({ used: 90, max: 100 }) }, clock),
    ],
    // Room for the first chunk alone.
    [
      'while it is read',
      createJobAdmission(
        { url: 'unix:///r', memory: async () => ({ used: 0, max: 60_000 }) },
        { ...clock, nowUs: () => 0 },
      ),
    ],
  ])('for which Redis has no room is refused %s, and nothing is left of it', async (_when, full) => {
    const before = admission;
    admission = { ...full, ...(_when.startsWith('while') ? { outlook: async () => undefined } : {}) };
    try {
      const refused = await submit(file(1_000));
      expect(refused.status).toBe(429);
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(refused.headers.get('nereid-error')).toContain('reason=redis_full');
      expect(await keysLeft()).toEqual([]);
    } finally {
      admission = before;
    }
  });

  test('that was put as a blob is taken as if it were sent', async () => {
    const text = Buffer.from(file(3_000));
    const ref = await queues.payloads.put(text, 60, clock.wallMs());
    const wrong = await submit(named({ ref, byte_size: 5 }), JSON_BODY);
    expect([wrong.status, wrong.body.field]).toEqual([400, 'input_blob.byte_size']);
    const { status, body } = await submit(named({ ref, byte_size: text.byteLength }), JSON_BODY);
    expect([status, body.request_counts.total]).toEqual([202, 3_000]);
    const sent = await submitted(3_000);
    for (let number = 0; number < 12; number++)
      expect(await store.chunk(body.id, number)).toEqual(await store.chunk(sent, number));
    for (const id of [body.id, sent]) await store.remove(id);
  });

  test.each<readonly [string, string, number]>([
    ['Nereid-Attempts', '0', 400],
    ['Nereid-Attempts', '101', 400],
    ['Nereid-Deadline-Ms', '-1', 400],
    ['Nereid-Deadline-Ms', 'soon', 400],
    ['Nereid-Result-Ttl-S', '0', 400],
    ['Nereid-Result-Ttl-S', '2592001', 400],
    ['Idempotency-Key', 'k', 501],
    ['Nereid-Webhook', 'http://localhost', 501],
    ['Nereid-Tag', 't', 501],
    ['Nereid-Priority', '1', 501],
    ['Nereid-Delay-Ms', '5', 501],
  ])('with %s: %s is refused', async (name, value, status) => {
    const refused = await submit(line(1), { [name]: value });
    expect([refused.status, refused.body.field]).toEqual([status, name]);
  });
});

describe('DELETE', () => {
  const result = (number: number, ok = true) => ({ line: number, ok, text: `{"line":${number}}` });
  const drop = (id: string) => call('DELETE', `/v2/batches/${id}`);

  test.each<readonly [string, (id: string) => Promise<unknown>, string, number]>([
    ['that waits', async () => {}, 'cancelled', 0],
    ['that runs', (id) => store.settle(id, [result(1)]), 'cancelled', 1],
  ])('ends a batch %s, and removes it the second time', async (_state, first, state, completed) => {
    const id = await submitted(3);
    await first(id);
    expect(await drop(id)).toMatchObject({ status: 200, body: { state, request_counts: { completed } } });
    expect((await call('GET', `/v2/batches/${id}`)).body.state).toBe(state);
    expect((await drop(id)).body.state).toBe(state);
    expect((await drop(id)).status).toBe(404);
    expect(await keysLeft()).toEqual([]);
  });

  test.each<readonly [string, (id: string) => Promise<unknown>]>([
    ['completed', (id) => store.settle(id, [result(0), result(1, false), result(2)])],
    ['expired', (id) => store.end(id, 'expired')],
    ['failed', (id) => store.end(id, 'failed', { code: 'UNAVAILABLE', message: 'no room' })],
  ])('removes one that is %s', async (state, end) => {
    const id = await submitted(3);
    await end(id);
    const { body } = await drop(id);
    expect(body.state).toBe(state);
    expect(body.error).toEqual(state === 'failed' ? { code: 'UNAVAILABLE', message: 'no room' } : undefined);
    expect((await drop(id)).status).toBe(404);
    expect(await keysLeft()).toEqual([]);
  });

  test('does only what it is asked for', async () => {
    const only = (id: string, what: string) => call('DELETE', `/v2/batches/${id}?only=${what}`);
    const id = await submitted(1);
    expect(await only(id, 'both')).toMatchObject({ status: 400, body: { field: 'only' } });
    expect(await only(id, 'remove')).toMatchObject({ status: 409, body: { code: 'INVALID_ARG', field: 'state' } });
    expect(await only(id, 'cancel')).toMatchObject({ status: 200, body: { state: 'cancelled' } });
    expect(await only(id, 'cancel')).toMatchObject({ status: 409, body: { field: 'state' } });
    expect((await only(id, 'remove')).status).toBe(200);
  });

  test('knows none that is still uploaded, and none of another name', async () => {
    const connection = await openConnection(url);
    const head = post('/v2/models/echo/batches', '').replace('Content-Length: 0', 'Content-Length: 600000');
    connection.socket.write(`${head}${file(600)}`);
    let ids: readonly string[] = [];
    // Redis has its first chunk.
    while (ids.length < 2) ids = await keysLeft();
    const [, id = ''] = /bulk:\{([^}]*)\}/.exec(ids[0] ?? '') ?? [];
    expect((await drop(id)).status).toBe(404);
    expect((await drop('echo~x')).status).toBe(404);
    connection.socket.destroy();
    // Who leaves in the middle leaves nothing.
    while ((await keysLeft()).length > 0);
  });
});

test('a page goes on behind the one before, however its place is escaped', async () => {
  const ids = [await submitted(1), await submitted(1)];
  const { body } = await call('GET', '/v2/models/echo/batches?limit=1');
  const escaped = body.next.replaceAll('~', '%7E');
  const behind = await call('GET', `/v2/models/echo/batches?limit=1&after=${escaped}`);
  expect([body, behind.body].map(({ batches }) => batches[0].id)).toEqual(ids.toReversed());
  for (const id of ids) await store.remove(id);
});

describe('results', () => {
  const LINES = 700;
  let id: string;

  beforeAll(async () => {
    id = await submitted(LINES);
    // Every third line has one; of those every second has failed.
    const results = Array.from({ length: Math.ceil(LINES / 3) }, (_, index) => ({
      line: index * 3,
      ok: index % 2 === 0,
      text: JSON.stringify({ line: index * 3 }),
    }));
    await store.settle(id, results);
  });

  const asked = async (query: string) => {
    const answer = await fetch(`${url}/v2/batches/${id}/results${query}`);
    expect([answer.status, answer.headers.get('nereid-batch-state')]).toEqual([200, 'running']);
    return (await answer.text())
      .split('\n')
      .filter(Boolean)
      .map((text) => JSON.parse(text).line as number);
  };
  const every = (step: number, from = 0) =>
    Array.from({ length: Math.ceil((LINES - from) / step) }, (_, index) => from + index * step);

  test.each<readonly [string, readonly number[]]>([
    ['', every(3)],
    ['?status=completed', every(6)],
    ['?status=failed', every(6, 3)],
    ['?after=0&limit=2', [3, 6]],
    ['?after=255&limit=1', [258]],
    ['?status=failed&limit=100', every(6, 3).slice(0, 100)],
    ['?after=695', [696, 699]],
    ['?after=699', []],
    ['?after=100000', []],
  ])('of a batch of 700 lines by %j are those', async (query, lines) => {
    expect(await asked(query)).toEqual(lines);
  });

  test.each([
    ['status=done', 'status'],
    ['after=-1', 'after'],
    ['after=x', 'after'],
    ['limit=0', 'limit'],
  ])('by ?%s are refused', async (query, field) => {
    const refused = await call('GET', `/v2/batches/${id}/results?${query}`);
    expect([refused.status, refused.body.field]).toEqual([400, field]);
  });
});
