import { METHODS } from 'node:http';
import { describe, expect, it } from 'vitest';
import { identity, modelRecord, readyVersion, SIMPLE } from '../gateway-fixture.ts';
import { httpFixture } from './http-fixture.ts';

const MODELS = [
  modelRecord(SIMPLE),
  ...['simp%6Ce', 'my own/m~', 'é'].map((name) => modelRecord(identity(name, 'FP32'))),
];

const NOT_FOUND = '{"error":"Not Found"}';
const NOT_ALLOWED = '{"error":"Method Not Allowed"}';

describe('paths match whole and as sent', () => {
  it.each([
    '/',
    '/v2/',
    '/v3',
    '/V2',
    '/metrics',
    '/v2/models',
    '/v2/models/',
    '/v2//models/simple',
    '/v2/models//ready',
    '/v2/models/simple/',
    '/v2/models/simple/READY',
    '/v2/health',
    '/v2/health/live/',
    '/v2/models/simple/versions',
    '/v2/models/simple/versions/',
    '/v2/models/simple/versions/two',
    '/v2/models/simple/versions/-1',
    '/v2/models/simple/versions/1.0/ready',
    '/v2/models/simple/versions/%31',
    '/v2/models/simple/versions/1/ready/x',
    '/v2/models/simple%2Fready/x',
    '/v2/strange',
    '/%zz',
    '/v2/models/a/b/infer',
    '/v2/models/simple/versions/1/trace/setting',
    '/v2/trace',
    '/v2/logging/',
    '/v2/repository',
    '/v2/repository/a/b/index',
    '/v2/repository/models/simple',
  ])('GET and POST %s are unknown', async (url) => {
    const { http } = await httpFixture({ models: MODELS });
    for (const method of ['GET', 'POST'] as const) {
      const answer = await http.inject({ method, url });
      expect([answer.statusCode, answer.body]).toEqual([404, NOT_FOUND]);
      expect(answer.headers['nereid-error']).toBe('NOT_FOUND');
    }
  });

  it.each([
    ['/v2/models/simp%6Ce', 'simp%6Ce'],
    ['/v2/models/simp%256Ce', 'simp%6Ce'],
    ['/v2/models/my%20own%2Fm~', 'my own/m~'],
    ['/v2/models/my%20own%2Fm%7E/versions/1', 'my own/m~'],
    ['/v2/models/%C3%A9', 'é'],
    ['/v2/models/%FF', undefined],
    ['/v2/models/simple?x=/y', 'simple'],
    ['/v2/models/simple/versions/01?', 'simple'],
    ['/v2/models/s%', undefined],
    [`/v2/models/${'n'.repeat(3000)}`, undefined],
  ])('%s is the model %s', async (url, name) => {
    const { http } = await httpFixture({ models: MODELS });
    const answer = await http.inject({ method: 'GET', url });
    if (name !== undefined) expect(answer.json()).toMatchObject({ name });
    else {
      const asked = url.slice('/v2/models/'.length);
      expect([answer.statusCode, answer.json()]).toEqual([
        404,
        { error: `Request for unknown model: '${asked}' is not found` },
      ]);
    }
  });
});

describe('methods', () => {
  const PATHS: readonly (readonly [string, string])[] = [
    ['GET', '/v2'],
    ['GET', '/v2/health/live'],
    ['GET', '/v2/health/ready'],
    ['GET', '/v2/models/simple'],
    ['GET', '/v2/models/simple/versions/1'],
    ['GET', '/v2/models/simple/ready'],
    ['GET', '/v2/models/simple/config'],
    ['GET', '/v2/models/stats'],
    ['GET', '/v2/models/simple/stats'],
    ['GET', '/v2/models/simple/versions/1/stats'],
    ['POST', '/v2/models/simple/infer'],
    ['POST', '/v2/models/simple/versions/1/infer'],
    ['POST', '/v2/models/simple/generate'],
    ['POST', '/v2/models/simple/versions/1/generate_stream'],
    ['POST', '/v2/repository/index'],
    ['POST', '/v2/repository/r/index'],
    ['POST', '/v2/repository/models/simple/load'],
    ['POST', '/v2/repository/r/models/simple/unload'],
  ];
  // CONNECT is no request for a path.
  const others = METHODS.filter((method) => method !== 'CONNECT');

  it.each(PATHS)('only %s is allowed on %s', async (allowed, url) => {
    const { http } = await httpFixture();
    for (const method of others) {
      if (method === allowed) continue;
      const answer = await http.inject({ method: method as 'GET', url });
      expect([method, answer.statusCode]).toEqual([method, 405]);
      // The transport leaves the body of a HEAD away; `inject` does too.
      if (method !== 'HEAD') expect(answer.body).toBe(NOT_ALLOWED);
      expect(answer.headers['content-type']).toBe('application/json');
      expect(answer.headers).not.toHaveProperty('allow');
    }
  });
});

describe('health', () => {
  it.each([
    '/v2/health/live',
    '/v2/health/live?x=1',
    '/v2/health/ready',
    '/v2/models/simple/ready',
    '/v2/models/simple/versions/1/ready',
  ])('%s is 200 without a body', async (url) => {
    const { http } = await httpFixture();
    const answer = await http.inject({ method: 'GET', url });
    expect([answer.statusCode, answer.body, answer.headers['content-type']]).toEqual([200, '', 'text/plain']);
  });

  it('is 400 without a body where not ready', async () => {
    const { http } = await httpFixture({ models: [modelRecord(SIMPLE, [])] });
    const answer = await http.inject({ method: 'GET', url: '/v2/health/ready' });
    expect([answer.statusCode, answer.body, answer.headers['content-type']]).toEqual([400, '', 'text/plain']);
  });

  it.each(['missing', 'simple/versions/7', 'simple/versions/99999999999999999999'])('%s is not ready', async (path) => {
    const { http } = await httpFixture();
    const answer = await http.inject({ method: 'GET', url: `/v2/models/${path}/ready` });
    expect([answer.statusCode, answer.body]).toEqual([400, '{"error":"Model version not ready"}']);
  });
});

describe('metadata', () => {
  const get = async (url: string) => {
    const three = modelRecord(identity('three', 'STRING', '-1, 4', 'platform: "p"'), [
      readyVersion('2'),
      { version: '3', state: 'LOADING', reason: '' },
      readyVersion('10'),
    ]);
    const { http } = await httpFixture({ models: [modelRecord(SIMPLE), three] });
    const answer = await http.inject({ method: 'GET', url });
    expect(answer.headers['content-type']).toBe('application/json');
    return { status: answer.statusCode, json: answer.json() };
  };

  it('of the server has its name, version and extensions', async () => {
    const { status, json } = await get('/v2');
    expect(status).toBe(200);
    expect(json).toMatchObject({ name: 'triton', version: '0.1.0' });
    expect(json.extensions).toContain('binary_tensor_data');
  });

  it('of a batching model shows the batch dimension', async () => {
    expect(await get('/v2/models/simple')).toEqual({
      status: 200,
      json: {
        name: 'simple',
        versions: ['1'],
        platform: 'onnxruntime',
        inputs: [
          { name: 'INPUT0', datatype: 'INT32', shape: [-1, 2] },
          { name: 'INPUT1', datatype: 'INT32', shape: [-1, 2] },
        ],
        outputs: [
          { name: 'OUTPUT0', datatype: 'INT32', shape: [-1, 2] },
          { name: 'OUTPUT1', datatype: 'INT32', shape: [-1, 2] },
        ],
      },
    });
  });

  it.each([
    ['', ['2', '10']],
    ['/versions/2', ['2']],
  ])('lists all ready versions, or the one asked for: %s', async (rest, versions) => {
    expect(await get(`/v2/models/three${rest}`)).toEqual({
      status: 200,
      json: {
        name: 'three',
        versions,
        platform: 'p',
        inputs: [{ name: 'INPUT', datatype: 'BYTES', shape: [-1, 4] }],
        outputs: [{ name: 'OUTPUT', datatype: 'BYTES', shape: [-1, 4] }],
      },
    });
  });

  it.each(['', '/config'])('%s of what is not there is an error', async (rest) => {
    const error = (text: string) => ({ error: `Request for unknown model: ${text}` });
    expect(await get(`/v2/models/missing${rest}`)).toEqual({ status: 404, json: error("'missing' is not found") });
    expect(await get(`/v2/models/simple/versions/7${rest}`)).toEqual({
      status: 404,
      json: error("'simple' version 7 is not found"),
    });
    expect(await get(`/v2/models/three/versions/3${rest}`)).toEqual({
      status: 503,
      json: error("'three' version 3 is not at ready state"),
    });
  });

  it('of a config is all of it', async () => {
    const { status, json } = await get('/v2/models/simple/versions/1/config');
    expect(status).toBe(200);
    expect(json).toMatchObject({ name: 'simple', max_batch_size: 8, backend: 'onnxruntime' });
    expect(json.input[0]).toMatchObject({ name: 'INPUT0', data_type: 'TYPE_INT32', dims: [2], optional: false });
  });

  it.each([
    [undefined, { kind: 'KIND_CPU', count: 2, gpus: [] }],
    [2, { kind: 'KIND_GPU', count: 1, gpus: [0, 1] }],
  ])('of a config shows the instances that its workers have, with %s GPUs', async (gpus, group) => {
    const record = modelRecord(`${SIMPLE} instance_group { }`);
    const { http } = await httpFixture({ models: [{ ...record, ...(gpus === undefined ? {} : { gpus }) }] });
    const answer = await http.inject({ method: 'GET', url: '/v2/models/simple/config' });
    const json = JSON.parse(answer.body);
    expect(json.instance_group).toMatchObject([{ name: 'simple_0', ...group }]);
  });
});
