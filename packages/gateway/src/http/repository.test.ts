import { type ControlMode, encodeRepositoryList, REPOSITORY_VALUE, type RepositoryFolder } from '@nereid/config';
import { describe, expect, it } from 'vitest';
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

  it('are not there yet in mode explicit', async () => {
    const post = await served('explicit');
    const body = '{"parameters":{"config":"{}","file:1/model.onnx":"AAAA"}}';
    expect(await post(load, body)).toEqual({ status: 501, json: { error: expect.stringContaining('--load-model') } });
    expect((await post(unload, '{"parameters":{"unload_dependents":true}}')).status).toBe(501);
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
