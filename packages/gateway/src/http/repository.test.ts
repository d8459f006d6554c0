import {
  type ControlMode,
  encodeRepositoryList,
  LIMITS,
  type ModelRecord,
  REPOSITORY_VALUE,
  type RepositoryFolder,
} from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import { createLocalDirectory, createLocalUploads } from '@nereid/transport';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { createRepository } from '../repository.ts';
import { adminKey } from '../restricted.ts';
import { servicesFixture } from '../services-fixture.ts';
import { httpFixture } from './http-fixture.ts';

const folder = (name: string): RepositoryFolder => ({ name, conflict: null });

async function served(controlMode: ControlMode = 'none') {
  const { http, directory } = await httpFixture();
  const folders = [folder('never_loaded'), folder('simple')];
  await directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode, folders }));
  return async (url: string, payload?: string) => {
    const answer = await http.inject({ method: 'POST', url, ...(payload === undefined ? {} : { payload }) });
    expect(answer.headers['content-type']).toBe('application/json');
    return { status: answer.statusCode, json: answer.json() };
  };
}

/** With coordinators that take every change. */
async function changing(options: { readonly address?: string; readonly adminKey?: string | undefined } = {}) {
  const answer: { error: ErrorInfo | undefined } = { error: undefined };
  const directory = createLocalDirectory<ModelRecord>();
  const change = async () => answer.error;
  const repository = createRepository({
    directory,
    changes: { load: change, unload: change },
    uploads: createLocalUploads(LIMITS),
    codeRules: { allowed: false, key: adminKey(options.adminKey) },
  });
  const services = { ...servicesFixture(directory), repository };
  const { http } = await httpFixture({ http: { services, ...options } });
  return { http, directory, answer };
}

const SIMPLE_READY = { name: 'simple', version: '1', state: 'READY' };

describe('the index', () => {
  it.each([undefined, '{}', '{"ready":false}', '{"other":1}'])('of all, asked by %s', async (body) => {
    const post = await served();
    const all = { status: 200, json: [{ name: 'never_loaded' }, SIMPLE_READY] };
    expect(await post('/v2/repository/index', body)).toEqual(all);
    expect(await post('/v2/repository/whatever/index', body)).toEqual(all);
  });

  it('of what is ready', async () => {
    const post = await served();
    expect(await post('/v2/repository/index', '{"ready":true}')).toEqual({ status: 200, json: [SIMPLE_READY] });
  });

  it.each([
    ['hello', 'failed to parse the request JSON buffer: Invalid value. at 0'],
    ['[]', 'the request body must be a JSON object'],
    ['{"ready":"yes"}', "Invalid value for 'ready': expected a boolean"],
    ['{"ready":null}', "Invalid value for 'ready': expected a boolean"],
  ])('is refused for the body %s', async (body, error) => {
    const post = await served();
    expect(await post('/v2/repository/index', body)).toEqual({ status: 400, json: { error } });
  });
});

describe('load and unload', () => {
  const load = '/v2/repository/models/simple/load';
  const unload = '/v2/repository/models/simple/unload';
  const NOT_ALLOWED = { error: 'explicit model load / unload is not allowed if polling is enabled' };

  it.each([undefined, '{}', '{"parameters":{}}'])('are not allowed in mode none: %s', async (body) => {
    const post = await served();
    for (const url of [load, unload, '/v2/repository/models/missing/load']) {
      expect(await post(url, body)).toEqual({ status: 503, json: NOT_ALLOWED });
    }
  });

  it('are answered without a body once they are over', async () => {
    const { http, directory, answer } = await changing();
    const files = encodeRepositoryList({ controlMode: 'explicit', folders: [] });
    await directory.setValue(REPOSITORY_VALUE, files);
    for (const [url, payload] of [
      [load, ''],
      [load, '{"parameters":{"config":"{\\"backend\\":\\"onnxruntime\\"}","file:1/model.onnx":"AAAA"}}'],
      [unload, '{"parameters":{"unload_dependents":true}}'],
    ] as const) {
      const done = await http.inject({ method: 'POST', url, payload });
      expect({ status: done.statusCode, type: done.headers['content-type'], body: done.body }).toEqual({
        status: 200,
        type: 'application/json',
        body: '',
      });
    }
    answer.error = { code: 'INTERNAL', message: 'failed to load' };
    const failed = await http.inject({ method: 'POST', url: load });
    expect([failed.statusCode, failed.json()]).toEqual([500, { error: 'failed to load' }]);
  });

  it.each([load, unload])('the example of the OpenAPI document for %s is taken', async (url) => {
    const { http, directory } = await changing();
    await directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode: 'explicit', folders: [] }));
    const document = (await http.inject({ method: 'GET', url: '/openapi.json' })).json();
    const { parameters, requestBody, responses } = document.paths[url.replace('simple', '{model}')].post;
    expect(parameters[0]).toMatchObject({ name: 'model', in: 'path' });
    const { example, schema } = requestBody.content['application/json'];
    const ajv = new Ajv2020({ strict: false });
    expect(ajv.validate(schema, example), ajv.errorsText()).toBe(true);
    const answer = await http.inject({ method: 'POST', url, payload: example });
    expect([answer.statusCode, Object.keys(responses)]).toEqual([200, ['200', 'default']]);
    const wrong = { parameters: Object.fromEntries(Object.keys(example.parameters).map((name) => [name, 1])) };
    expect(ajv.validate(schema, wrong)).toBe(false);
    expect((await http.inject({ method: 'POST', url, payload: wrong })).statusCode).toBe(400);
  });

  it.each([
    ['0.0.0.0', {}, undefined, 403],
    ['127.0.0.1', {}, undefined, 200],
    ['127.0.0.1', { origin: 'https://elsewhere.example' }, undefined, 403],
    ['127.0.0.1', { 'x-forwarded-for': '10.1.1.1' }, undefined, 403],
    ['127.0.0.1', {}, 'secret', 403],
    ['0.0.0.0', { 'nereid-admin-key': 'secret' }, 'secret', 200],
    ['0.0.0.0', { 'nereid-admin-key': 'other' }, 'secret', 403],
  ])('code at %s with %j and the admin key %s: %i', async (address, headers, key, status) => {
    const { http, directory } = await changing({ address, adminKey: key });
    await directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode: 'explicit', folders: [] }));
    const payload = '{"parameters":{"config":"{\\"backend\\":\\"javascript\\"}","file:1/model.mjs":"AAAA"}}';
    const answer = await http.inject({ method: 'POST', url: load, payload, headers });
    expect(answer.statusCode).toBe(status);
    if (status === 403) expect(answer.json()).toEqual({ error: expect.stringContaining("'file:1/model.mjs' is code") });
  });

  it('of a named repository are not supported, whatever the body is', async () => {
    const post = await served();
    for (const action of ['load', 'unload']) {
      expect(await post(`/v2/repository/r/models/simple/${action}`, 'hello')).toEqual({
        status: 501,
        json: { error: "'repository_name' specification is not supported" },
      });
    }
  });

  it.each([
    [load, 'hello', 'failed to parse the request JSON buffer: Invalid value. at 0'],
    [load, '{"parameters":[]}', 'attempt to get members for non-object'],
    [load, '{"parameters":{"zz":"x"}}', "unrecognized load parameter 'zz'."],
    [
      load,
      '{"parameters":{"config":{"max_batch_size":2}}}',
      "Unable to parse 'config': attempt to access JSON non-string as string",
    ],
    [load, '{"parameters":{"file:a":"?"}}', "parameter 'file:a' must be the file's content in base64"],
    [unload, '{"parameters":1}', 'attempt to get members for non-object'],
    [
      unload,
      '{"parameters":{"unload_dependents":"yes"}}',
      "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean",
    ],
  ])('%s is refused for the body %s', async (url, body, error) => {
    const post = await served();
    expect(await post(url, body)).toEqual({ status: 400, json: { error } });
  });
});
