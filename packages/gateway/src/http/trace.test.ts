import { NO_TRACES, type TraceConfig } from '@nereid/config';
import { describe, expect, it } from 'vitest';
import { servicesFixture } from '../services-fixture.ts';
import { httpFixture } from './http-fixture.ts';

const ALL = '/v2/trace/setting';
const MODEL = '/v2/models/simple/trace/setting';
const START = {
  trace_level: ['OFF'],
  trace_rate: '1000',
  trace_count: '-1',
  log_frequency: '0',
  trace_file: 'f',
  trace_mode: 'triton',
};

async function served(start: TraceConfig = { ...NO_TRACES, file: 'f' }) {
  const { directory, gateway } = await httpFixture();
  const { http } = await httpFixture({ http: { gateway, services: servicesFixture(directory, start) } });
  const ask = async (method: 'GET' | 'POST', url: string, payload?: string) => {
    const answer = await http.inject({ method, url, ...(payload === undefined ? {} : { payload }) });
    expect(answer.headers['content-type']).toBe('application/json');
    return { status: answer.statusCode, json: answer.json() };
  };
  const get = (url: string) => ask('GET', url);
  const post = (url: string, body: unknown) => ask('POST', url, JSON.stringify(body));
  return { get, post, ask };
}

it('shows what holds for all models, and for one', async () => {
  const { get } = await served();
  for (const url of [ALL, MODEL]) expect(await get(url)).toEqual({ status: 200, json: START });
});

it('sets all at once, for all models or for one', async () => {
  const { get, post } = await served();
  const forAll = { ...START, trace_rate: '9', trace_level: ['TIMESTAMPS', 'TENSORS'] };
  expect(await post(ALL, { trace_rate: '9', trace_level: ['TENSORS', 'TIMESTAMPS'] })).toEqual({
    status: 200,
    json: forAll,
  });
  expect((await post(MODEL, { trace_level: ['OFF'], trace_count: '4' })).json).toEqual({
    ...forAll,
    trace_level: ['OFF'],
    trace_count: '4',
  });
  expect((await get(ALL)).json).toEqual(forAll);
  expect((await post(MODEL, { trace_level: null, trace_count: null })).json).toEqual(forAll);
});

it.each([{}, { colour: 'red' }, { trace_mode: 'opentelemetry' }, { trace_level: ['LOUD'] }, { trace_level: [] }])(
  '%j changes nothing',
  async (change) => {
    const { post } = await served();
    expect(await post(ALL, change)).toEqual({ status: 200, json: START });
  },
);

describe('what is wrong is told and changes nothing', () => {
  it.each<[object, number, string]>([
    [{ trace_file: 'x' }, 501, 'trace file location can not be updated through network protocol'],
    [{ trace_level: 'OFF' }, 400, "Unable to parse 'trace_level': attempt to access JSON non-array as array"],
    [{ trace_level: [1] }, 400, "Unable to parse 'trace_level': attempt to access JSON non-string as string"],
    [{ trace_rate: 5 }, 400, "Unable to parse 'trace_rate': attempt to access JSON non-string as string"],
    [{ trace_rate: '11', trace_count: 'many' }, 400, "Unable to parse 'trace_count', got: many"],
    [
      { trace_rate: '0', trace_level: ['TENSORS'] },
      400,
      'Attempting to set invalid trace setting :sample rate must be non-zero',
    ],
  ])('%j: %i', async (change, status, error) => {
    const { get, post } = await served();
    expect(await post(ALL, change)).toEqual({ status, json: { error } });
    expect((await get(ALL)).json).toEqual(START);
  });

  it('a model that is not there', async () => {
    const { get, post } = await served();
    const refused = { status: 400, json: { error: 'Request for unknown model : missing' } };
    const url = '/v2/models/missing/trace/setting';
    expect([await get(url), await post(url, { trace_rate: '1' })]).toEqual([refused, refused]);
  });

  it.each([undefined, 'hello'])('the body %s', async (body) => {
    const { ask } = await served();
    const { status, json } = await ask('POST', ALL, body);
    expect([status, json.error]).toEqual([400, expect.stringMatching(/^failed to parse the request JSON buffer: /)]);
  });
});

it('in the mode opentelemetry file and frequency are left out, and what the exporter is told is shown', async () => {
  const exporter = [
    ['url', 'http://c'],
    ['resource', 'a=b'],
    ['resource', 'c=d'],
  ] as const;
  const { get } = await served({ ...NO_TRACES, file: '', mode: 'opentelemetry', exporter });
  expect((await get(ALL)).json).toEqual({
    trace_level: ['OFF'],
    trace_rate: '1000',
    trace_count: '-1',
    trace_mode: 'opentelemetry',
    url: 'http://c',
    resource: 'a=b,c=d',
  });
});
