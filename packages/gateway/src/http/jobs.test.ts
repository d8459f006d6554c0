import { gunzipSync, gzipSync } from 'node:zlib';
import { decodeJobData, encodeJobResult } from '@nereid/protocol';
import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, createJobQueues, type JobQueues, type JobTaker, type TakenJob, timing } from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { createJobs } from '../jobs.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

const REQUEST_LIMITS = { json_depth_max: 100, elements_max: 1e6, bytes_max: 1e7 };

let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];
let model: string;
let models = 0;
let queues: JobQueues;
let http: HttpFixture['http'];
let fixture: HttpFixture;

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
  const records = [
    modelRecord(identity(model, 'FP32')),
    modelRecord(identity('failed', 'FP32'), [{ version: '1', state: 'UNAVAILABLE', reason: 'Internal: broken' }]),
    modelRecord(identity('idle', 'FP32'), [
      { version: '1', state: 'UNAVAILABLE', reason: 'Unavailable: no worker holds the model' },
    ]),
    modelRecord(identity('a b', 'FP32')),
    modelRecord(
      identity('small', 'FP32', '-1', 'parameters { key: "nereid.job_bytes_max" value { string_value: "12" } }'),
    ),
    modelRecord(identity('stream', 'FP32', '-1', 'model_transaction_policy { decoupled: true }')),
  ];
  fixture = await httpFixture({ models: records });
  const jobs = createJobs({ queues, directory: fixture.directory, clock, gateway: fixture.gateway });
  ({ http } = await httpFixture({ models: records, http: { jobs, gateway: fixture.gateway } }));
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

/** Takes the model's jobs as a coordinator does. */
function takeJobs(of: string, run: (job: TakenJob, taker: JobTaker) => void): JobTaker {
  const taker: JobTaker = queues.take(of, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 10,
    taken(job) {
      run(job, taker);
      return true;
    },
    lost: () => {},
  });
  cleanups.push(() => taker.close());
  return taker;
}

/** The outputs are the inputs. */
function echo(of: string): JobTaker {
  return takeJobs(of, ({ id, data, blobs: given = new Map() }, taker) => {
    const { request, respond } = decodeJobData(data, { modelName: of, limits: REQUEST_LIMITS, blobs: given });
    const outputs = request.inputs.map((input) => ({ ...input, name: 'OUTPUT' }));
    const response = { modelName: of, modelVersion: '1', id: request.id, parameters: {}, outputs };
    const blobs = new Map<string, Uint8Array>();
    const result = encodeJobResult(response, respond, (output, index) => {
      const ref = queues.payloads.outputRef(of, id, index);
      blobs.set(ref, output.data);
      return ref;
    });
    void taker.complete(id, result, undefined, { blobs, ttlS: 60 });
  });
}

const body = (more: object = {}) => ({
  inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [2], data: [1, 2.5] }],
  ...more,
});

const submit = (
  payload: object | string | Buffer = body(),
  headers: Record<string, string> = {},
  path = `/v2/models/${model}/jobs`,
) => http.inject({ method: 'POST', url: path, payload, headers });

describe('a job over HTTP', () => {
  test('is submitted, asked after, and gives its result', async () => {
    const submitted = await submit(body({ id: 'mine' }));
    expect(submitted.statusCode).toBe(202);
    const job = submitted.json();
    expect(job).toEqual({
      id: expect.stringMatching(`^${model}~[0-9A-HJKMNP-TV-Z]{26}$`),
      model_name: model,
      state: 'waiting',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      attempts_made: 0,
      attempts_max: 3,
      result_url: `/v2/jobs/${job.id}/result`,
      request_id: 'mine',
    });
    expect(submitted.headers.location).toBe(`/v2/jobs/${job.id}`);
    expect((await http.inject(`/v2/jobs/${job.id}`)).json()).toEqual({ ...job, position: 0 });
    const early = await http.inject(job.result_url);
    expect({ status: early.statusCode, again: early.headers['retry-after'], job: early.json() }).toEqual({
      status: 202,
      again: '1',
      job,
    });

    const waiting = http.inject(`${job.result_url}?wait=20s`);
    echo(model);
    const result = await waiting;
    expect(result.statusCode).toBe(200);
    expect(result.json()).toEqual({
      id: 'mine',
      model_name: model,
      model_version: '1',
      outputs: [{ name: 'OUTPUT', datatype: 'FP32', shape: [2], data: [1, 2.5] }],
    });
    expect((await http.inject(`/v2/jobs/${job.id}?wait=1s`)).json()).toMatchObject({
      state: 'completed',
      attempts_made: 1,
      started_at: expect.any(String),
      finished_at: expect.any(String),
      expires_at: expect.any(String),
    });
  });

  test('has the binary answer that it asked for', async () => {
    echo(model);
    const header = JSON.stringify({
      inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1], parameters: { binary_data_size: 4 } }],
      outputs: [{ name: 'OUTPUT', parameters: { binary_data: true } }],
    });
    const tensor = Buffer.from(Float32Array.of(Number.NaN).buffer);
    const submitted = await submit(Buffer.concat([Buffer.from(header), tensor]), {
      'Inference-Header-Content-Length': String(header.length),
    });
    const result = await http.inject(`${submitted.json().result_url}?wait=20s`);
    const length = Number(result.headers['inference-header-content-length']);
    expect(result.rawPayload.subarray(length)).toEqual(tensor);
  });

  test('takes a raw binary body', async () => {
    echo(model);
    const submitted = await submit(Buffer.from(Float32Array.of(7).buffer), { 'Inference-Header-Content-Length': '0' });
    const result = await http.inject(`${submitted.json().result_url}?wait=20s`);
    expect(result.headers['content-type']).toBe('application/octet-stream');
  });

  test('takes a compressed body, and compresses its answer', async () => {
    echo(model);
    const submitted = await submit(gzipSync(JSON.stringify(body())), { 'Content-Encoding': 'gzip' });
    const result = await http.inject({
      url: `${submitted.json().result_url}?wait=20s`,
      headers: { 'Accept-Encoding': 'gzip' },
    });
    expect(result.headers['content-encoding']).toBe('gzip');
    expect(JSON.parse(gunzipSync(result.rawPayload).toString()).outputs[0].data).toEqual([1, 2.5]);
  });

  test('over the limit once it is inflated is too large', async () => {
    const bomb = gzipSync(Buffer.alloc(1_000_001));
    const refused = await submit(bomb, { 'Content-Encoding': 'gzip' });
    expect([refused.statusCode, refused.json().code]).toEqual([413, 'INVALID_ARG']);
  });

  test('keeps the classes that it asks for', async () => {
    takeJobs(model, ({ id, data }, taker) => {
      const { outputs } = decodeJobData(data, { modelName: model, limits: REQUEST_LIMITS });
      void taker.complete(id, { model_name: model, model_version: '1', outputs: [] });
      expect(outputs).toEqual([{ name: 'OUTPUT', binary: false, classification: 2 }]);
    });
    const asked = await submit(body({ outputs: [{ name: 'OUTPUT', parameters: { classification: 2 } }] }));
    expect((await http.inject(`${asked.json().result_url}?wait=20s`)).statusCode).toBe(200);
  });

  test('names its version', async () => {
    const submitted = await submit(body(), {}, `/v2/models/${model}/versions/1/jobs`);
    expect(submitted.json().model_version).toBe('1');
  });

  test('of a model whose name needs escapes', async () => {
    const directoryName = 'a b';
    echo(directoryName);
    const path = `/v2/jobs/${`a%20b~x%20y`}`;
    await queues.add(directoryName, {
      id: 'x y',
      createdMs: 1,
      data: body(),
      priority: 0,
      delayMs: 0,
      attempts: 1,
      resultTtlS: 9,
    });
    const found = await http.inject(`${path}?wait=20s`);
    expect(found.json()).toMatchObject({ id: 'a%20b~x%20y', model_name: 'a b', state: 'completed' });
    // A producer's own job, whose result is in plain JSON.
    expect((await http.inject(`${path}/result`)).json().outputs[0].data).toEqual([1, 2.5]);
  });

  test('is taken while no worker holds the model', async () => {
    expect((await submit(body(), {}, '/v2/models/idle/jobs')).statusCode).toBe(202);
  });

  test('its headers are kept', async () => {
    const submitted = await submit(body(), {
      'Nereid-Priority': '7',
      'Nereid-Delay-Ms': '60000',
      'Nereid-Deadline-Ms': '90000',
      'Nereid-Attempts': '5',
      'Nereid-Result-Ttl-S': '10',
    });
    expect(submitted.json()).toMatchObject({ state: 'delayed', attempts_max: 5 });
    const [, id = ''] = String(submitted.json().id).split('~');
    const job = await queues.find(model, id);
    expect(job).toMatchObject({ state: 'delayed', attemptsMax: 5 });
    expect(job?.data).toMatchObject({ deadline_ms: 90_000, result_ttl_s: 10 });
  });

  test.each([
    ['UTF-8, as curl sends it', 'utf8'],
    ['Latin-1, as fetch sends it', 'latin1'],
  ] as const)('a tag is read in %s', async (_, encoding) => {
    // Node's own form of a header: a character for each byte.
    const tag = Buffer.from('für groß', encoding).toString('latin1');
    expect((await submit(body(), { 'Nereid-Tag': tag })).json().tags).toEqual(['für groß']);
  });
});

describe('is refused before anything is queued', () => {
  test.each<[string, object | string, Record<string, string>, string, number, RegExp]>([
    ['wrong JSON', '{', {}, '', 400, /failed to parse the request JSON buffer/],
    [
      'a wrong tensor',
      body({ inputs: [{ name: 'X', datatype: 'FP32', shape: [1], data: [1] }] }),
      {},
      '',
      400,
      /unexpected inference input 'X'/,
    ],
    ['a step of no sequence', body({ parameters: { sequence_index: 3 } }), {}, '', 400, /give its sequence_id/],
    ['the same by the name for infer', body({ parameters: { nereid_step: 3 } }), {}, '', 400, /needs a non-zero/],
    ['an unknown model', body(), {}, '/v2/models/none/jobs', 404, /'none' is not found/],
    ['a model that did not load', body(), {}, '/v2/models/failed/jobs', 404, /no available versions/],
    ['an unknown version', body(), {}, 'VERSION', 404, /version 9 is not found/],
    ['a coding that is not taken', body(), { 'Content-Encoding': 'br' }, '', 501, /Unsupported compression type/],
    ['a body that is not compressed as told', body(), { 'Content-Encoding': 'gzip' }, '', 400, /failed to decompress/],
    ['a body over the limit', 'x'.repeat(1_000_001), {}, '', 413, /exceeds the maximum allowed input size/],
    [
      'a priority out of range',
      body(),
      { 'Nereid-Priority': '1001' },
      '',
      400,
      /Nereid-Priority must be an integer from 0 to 1000/,
    ],
    ['attempts that are no number', body(), { 'Nereid-Attempts': 'x' }, '', 400, /Nereid-Attempts/],
    ['a deadline of 0', body(), { 'Nereid-Deadline-Ms': '0' }, '', 400, /Nereid-Deadline-Ms/],
    [
      'an idempotency key that is none',
      body(),
      { 'Idempotency-Key': 'k'.repeat(256) },
      '',
      400,
      /Idempotency-Key must have/,
    ],
    ['a tag that is none', body(), { 'Nereid-Tag': 'a,,b' }, '', 400, /Nereid-Tag: up to 16 texts/],
    [
      'too many tags',
      body(),
      { 'Nereid-Tag': Array.from({ length: 17 }, (_, index) => index).join() },
      '',
      400,
      /Nereid-Tag: up to 16/,
    ],
  ])('%s', async (_what, payload, headers, path, status, text) => {
    const url = path === 'VERSION' ? `/v2/models/${model}/versions/9/jobs` : path === '' ? undefined : path;
    const refused = await submit(payload, headers, url);
    expect({ status: refused.statusCode, ...refused.json() }).toMatchObject({
      status,
      error: expect.stringMatching(text),
      code: expect.stringMatching(/^[A-Z_]+$/),
    });
    expect(await queues.counts(model)).toMatchObject({ waiting: 0, delayed: 0 });
  });

  test('with the text that infer has', async () => {
    const wrong = body({ id: 'r', inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1], data: [1] }] });
    const [job, infer] = await Promise.all([
      submit(wrong),
      http.inject({ method: 'POST', url: `/v2/models/${model}/infer`, payload: wrong }),
    ]);
    expect(infer.statusCode).toBe(400);
    expect(job.json().error).toBe(infer.json().error);
    expect(job.headers['nereid-error']).toBe(infer.headers['nereid-error']);
  });
});

describe('a result', () => {
  test('of a failed job is its error and status', async () => {
    takeJobs(model, ({ id }, taker) => void taker.fail(id, 'INTERNAL: model broke', false));
    const { id, result_url } = (await submit()).json();
    const result = await http.inject(`${result_url}?wait=20s`);
    expect({ status: result.statusCode, ...result.json() }).toEqual({
      status: 500,
      error: 'model broke',
      code: 'INTERNAL',
    });
    expect((await http.inject(`/v2/jobs/${id}`)).json()).toMatchObject({
      state: 'failed',
      error: { code: 'INTERNAL', message: 'model broke' },
    });
  });

  test('of a job that failed with UNAVAILABLE does not say to come again', async () => {
    takeJobs(model, ({ id }, taker) => void taker.fail(id, 'UNAVAILABLE: Request timeout expired', false));
    const result = await http.inject(`${(await submit()).json().result_url}?wait=20s`);
    expect(result.statusCode).toBe(503);
    expect(result.headers).not.toHaveProperty('retry-after');
  });

  test('of another worker is told', async () => {
    takeJobs(model, ({ id }, taker) => void taker.complete(id, 'x'));
    const result = await http.inject(`${(await submit()).json().result_url}?wait=20s`);
    expect(result.statusCode).toBe(500);
    expect(result.json().error).toContain('no infer response');
  });

  test('is gone once it has expired', async () => {
    echo(model);
    const { id, result_url } = (await submit(body(), { 'Nereid-Result-Ttl-S': '1' })).json();
    expect((await http.inject(`${result_url}?wait=20s`)).statusCode).toBe(200);
    await expect.poll(async () => (await http.inject(result_url)).statusCode, { timeout: 5_000 }).toBe(410);
    expect((await http.inject(`/v2/jobs/${id}`)).json().state).toBe('expired');
  });

  test.each(['m~x', 'nothing', 'a~b~c', '%ZZ~x'])('of unknown job %s is 404', async (id) => {
    for (const path of [`/v2/jobs/${id}`, `/v2/jobs/${id}/result`]) {
      const refused = await http.inject(path);
      expect({ status: refused.statusCode, code: refused.json().code }).toEqual({ status: 404, code: 'NOT_FOUND' });
    }
  });

  test('is not waited for longer than asked', async () => {
    const { result_url } = (await submit()).json();
    expect((await http.inject(`${result_url}?wait=20ms`)).statusCode).toBe(202);
    const refused = await http.inject(`${result_url}?wait=soon`);
    expect({ status: refused.statusCode, field: refused.json().field }).toEqual({ status: 400, field: 'wait' });
  });

  test('is no longer waited for once its client has left', async () => {
    const { result_url } = (await submit()).json();
    const { url } = await http.listen();
    const leaving = new AbortController();
    const asked = fetch(`${url}${result_url}?wait=30s`, { signal: leaving.signal }).catch(() => 'left');
    await expect.poll(() => queues.waiters).toBe(1);
    leaving.abort();
    expect(await asked).toBe('left');
    await expect.poll(() => queues.waiters).toBe(0);
  });
});

test('the queue is told to producers', async () => {
  expect((await http.inject(`/v2/models/${model}/jobs/queue`)).json()).toEqual({
    name: `infer.${model}`,
    prefix: 'bull',
    redis_url: server.url,
  });
  expect((await http.inject('/v2/models/none/jobs/queue')).statusCode).toBe(404);
});

test('without Redis the routes say how to get one', async () => {
  const plain = await httpFixture({ models: [modelRecord(identity(model, 'FP32'))] });
  const answers = await Promise.all([
    plain.http.inject({ method: 'POST', url: `/v2/models/${model}/jobs`, payload: body() }),
    plain.http.inject('/v2/jobs/x~y'),
    plain.http.inject('/v2/jobs/x~y/result'),
    plain.http.inject(`/v2/models/${model}/jobs/queue`),
  ]);
  for (const answer of answers) {
    expect(answer.statusCode).toBe(503);
    expect(answer.json().error).toMatch(/install redis-server/);
  }
});

test('misses none of 1,000 short jobs (BC-127)', async () => {
  takeJobs(model, ({ id, data }, taker) => {
    const { request } = decodeJobData(data, { modelName: model, limits: REQUEST_LIMITS });
    const response = { modelName: model, modelVersion: '1', id: request.id, parameters: {}, outputs: [] };
    setTimeout(() => void taker.complete(id, encodeJobResult(response, 'b64')), 1);
  });
  const ids = await Promise.all(
    Array.from({ length: 1000 }, async (_, index) => {
      const submitted = await submit(body({ id: String(index) }));
      return (await http.inject(`${submitted.json().result_url}?wait=25s`)).json().id;
    }),
  );
  expect(ids).toEqual(Array.from({ length: 1000 }, (_, index) => String(index)));
});

describe('large tensors', () => {
  /** A binary request of so many elements. */
  const binary = (count: number) => {
    const data = Float32Array.from({ length: count }, (_, index) => index);
    const shape = [count];
    const parameters = { binary_data_size: 4 * count };
    const header = Buffer.from(
      JSON.stringify({
        inputs: [{ name: 'INPUT', datatype: 'FP32', shape, parameters }],
        outputs: [{ name: 'OUTPUT', parameters: { binary_data: true } }],
      }),
    );
    return { data, header, payload: Buffer.concat([header, Buffer.from(data.buffer)]) };
  };
  const submitBinary = (count: number) => {
    const { header, payload } = binary(count);
    return submit(payload, {
      'Content-Type': 'application/octet-stream',
      'Inference-Header-Content-Length': String(header.byteLength),
    });
  };

  test('stand beside the job and its result, and come back as they were', async () => {
    const submitted = await submitBinary(100_000);
    expect(submitted.statusCode).toBe(202);
    const { id, result_url } = submitted.json();
    const job = await queues.find(model, id.split('~')[1]);
    expect(JSON.stringify(job?.data).length).toBeLessThan(1_000);
    echo(model);
    const result = await http.inject(`${result_url}?wait=20s`);
    expect(result.statusCode).toBe(200);
    const length = Number(result.headers['inference-header-content-length']);
    expect(result.rawPayload.subarray(length).equals(Buffer.from(binary(100_000).data.buffer))).toBe(true);
    expect(JSON.stringify((await queues.find(model, id.split('~')[1]))?.result).length).toBeLessThan(1_000);
  });

  test('of a result are gone before the job where somebody deletes them: 410', async () => {
    echo(model);
    const { id, result_url } = (await submitBinary(100_000)).json();
    expect((await http.inject(`${result_url}?wait=20s`)).statusCode).toBe(200);
    const job = id.split('~')[1];
    const result = (await queues.find(model, job))?.result;
    const { outputs } = result as { readonly outputs: readonly { readonly blob: { readonly ref: string } }[] };
    await queues.payloads.remove(
      model,
      job,
      outputs.map(({ blob }) => blob.ref),
    );
    expect((await http.inject(result_url)).statusCode).toBe(410);
  });

  test('beyond what the model allows are 413', async () => {
    const refused = await submit(
      body({ inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [4], data: [1, 2, 3, 4] }] }),
      {},
      '/v2/models/small/jobs',
    );
    expect({ status: refused.statusCode, ...refused.json() }).toEqual({
      status: 413,
      code: 'INVALID_ARG',
      field: 'inputs',
      error: expect.stringMatching(/16 bytes, a job of model 'small' may have 12 \(nereid\.job_bytes_max\)/),
    });
    expect((await submit(body(), {}, '/v2/models/small/jobs')).statusCode).toBe(202);
  });

  test('that Redis has no room for are 429 with Retry-After (BC-134)', async () => {
    const admin = connectRedis(server.url, { name: 'test' }).connect('admin');
    cleanups.push(() => admin.close());
    await admin.ready();
    await admin.client.call('CONFIG', 'SET', 'maxmemory', '1mb');
    try {
      const refused = await submitBinary(100_000);
      expect({ status: refused.statusCode, code: refused.json().code, after: refused.headers['retry-after'] }).toEqual({
        status: 429,
        code: 'UNAVAILABLE',
        after: '1',
      });
      expect(refused.json().error).toContain('maxmemory');
    } finally {
      await admin.client.call('CONFIG', 'SET', 'maxmemory', '0');
    }
    await expect.poll(async () => (await submitBinary(100)).statusCode).toBe(202);
  });

  test('are put for jobs to come, and read, by their references', async () => {
    const bytes = Buffer.from(Float32Array.of(1, 2).buffer);
    const put = await http.inject({
      method: 'POST',
      url: '/v2/blobs',
      payload: bytes,
      headers: { 'Content-Type': 'application/octet-stream', 'Nereid-Ttl-S': '60' },
    });
    expect(put.statusCode).toBe(201);
    const { ref, byte_size } = put.json();
    expect(byte_size).toBe(8);
    const read = await http.inject(`/v2/blobs/${ref}`);
    expect(read.headers['content-type']).toBe('application/octet-stream');
    expect(read.rawPayload.equals(bytes)).toBe(true);
    expect((await http.inject('/v2/blobs/blob-none')).statusCode).toBe(404);
    echo(model);
    const inputs = [{ name: 'INPUT', datatype: 'FP32', shape: [2], blob: { ref, byte_size } }];
    const job = { id: 'p1', createdMs: Date.now(), priority: 0, delayMs: 0, attempts: 1, resultTtlS: 60 };
    await queues.add(model, { ...job, data: { inputs, respond: 'blob' } });
    const result = (await queues.wait(model, 'p1', 20_000))?.result;
    const { outputs } = result as { readonly outputs: readonly { readonly blob: { readonly ref: string } }[] };
    const output = await http.inject(`/v2/blobs/${outputs[0]?.blob.ref}`);
    expect(output.rawPayload.equals(bytes)).toBe(true);
  });

  test.each(['0', 'x', '9999999999'])('are not put for a time of %s', async (ttl) => {
    const refused = await http.inject({
      method: 'POST',
      url: '/v2/blobs',
      payload: 'x',
      headers: { 'Nereid-Ttl-S': ttl },
    });
    expect({ status: refused.statusCode, field: refused.json().field }).toEqual({ status: 400, field: 'Nereid-Ttl-S' });
  });
});
