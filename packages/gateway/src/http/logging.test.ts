import { describe, expect, it } from 'vitest';
import { httpFixture } from './http-fixture.ts';

const START = {
  log_file: '',
  log_info: true,
  log_warning: true,
  log_error: true,
  log_verbose_level: 0,
  log_format: 'default',
};

async function served() {
  const { http } = await httpFixture();
  const ask = async (method: 'GET' | 'POST', payload?: string) => {
    const answer = await http.inject({ method, url: '/v2/logging', ...(payload === undefined ? {} : { payload }) });
    expect(answer.headers['content-type']).toBe('application/json');
    return { status: answer.statusCode, json: answer.json() };
  };
  return { get: () => ask('GET'), post: (body?: unknown) => ask('POST', JSON.stringify(body)), postText: ask };
}

it('shows the settings', async () => {
  const { get } = await served();
  expect(await get()).toEqual({ status: 200, json: START });
});

it.each([
  [{ log_warning: false }],
  [{ log_error: false, log_info: false }],
  [{ log_verbose_level: 2, log_format: 'ISO8601' }],
])('%j is set, and the rest stays', async (change) => {
  const { get, post } = await served();
  const expected = { status: 200, json: { ...START, ...change } };
  expect([await post(change), await get()]).toEqual([expected, expected]);
});

it.each([
  [{}],
  [{ log_colour: 'red' }],
  [{ log_file: null, log_info: null, log_verbose_level: null, log_format: null }],
])('%j changes nothing', async (change) => {
  const { post } = await served();
  expect(await post(change)).toEqual({ status: 200, json: START });
});

describe('what is wrong is told', () => {
  it.each<[object, number, string]>([
    [{ log_file: 'x' }, 501, 'log file location can not be updated through network protocol'],
    [{ log_format: 'fancy' }, 503, 'invalid argument for --log_format, got: fancy'],
    [{ log_info: 0 }, 400, "Unable to parse 'log_info': attempt to access JSON non-boolean as boolean"],
    [
      { log_verbose_level: '1' },
      400,
      "Unable to parse 'log_verbose_level': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ],
    [
      { log_verbose_level: -1 },
      400,
      "Unable to parse 'log_verbose_level': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ],
    [{ log_verbose_level: 2147483648 }, 400, 'log_verbose_level must be from 0 to 2147483647, got 2147483648'],
    [{ log_format: 1 }, 400, "Unable to parse 'log_format': attempt to access JSON non-string as string"],
  ])('%j: %i', async (change, status, error) => {
    const { post, get } = await served();
    expect(await post(change)).toEqual({ status, json: { error } });
    expect((await get()).json).toEqual(START);
  });

  it.each([
    [undefined, 'failed to parse the request JSON buffer: The document is empty. at 0'],
    ['hello', 'failed to parse the request JSON buffer: Invalid value. at 0'],
    ['[]', 'the request body must be a JSON object'],
  ])('the body %s: 400', async (body, error) => {
    const { postText } = await served();
    expect(await postText('POST', body)).toEqual({ status: 400, json: { error } });
  });
});

it('settings before a wrong one, in their own order, hold all the same', async () => {
  const { get, post } = await served();
  expect(
    (await post({ log_format: 'ISO8601', log_verbose_level: 'x', log_error: false, log_info: false })).status,
  ).toBe(400);
  expect((await get()).json).toEqual({ ...START, log_error: false, log_info: false });
});
