import type { Message } from '@nereid/protocol';
import { afterEach, expect, test } from 'vitest';
import { echo } from '../gateway-fixture.ts';
import { parseRestricted } from '../restricted.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

const PATH = '/nereid/v1/explain';
const INPUTS = ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] }));
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };

const isQuestion = ({ kind }: Message) => kind === 'explain';

let fixture: HttpFixture;
afterEach(() => fixture.gateway.close());

const get = async (url: string, headers = {}) => {
  const { statusCode, body } = await fixture.http.inject({ method: 'GET', url: `${PATH}/${url}`, headers });
  return { statusCode, body: JSON.parse(body) };
};

const infer = (model: string, body: object, headers = {}) =>
  fixture.http.inject({ method: 'POST', url: `/v2/models/${model}/infer`, payload: JSON.stringify(body), headers });

/** With a gateway that is alone. */
async function alone(options: Parameters<typeof httpFixture>[0] = {}) {
  fixture = await httpFixture({ answer: echo, ...options });
  await fixture.directory.leave('co-1');
}

test('an answered request is found by its id, its header and its trace', async () => {
  await alone();
  const { headers } = await infer('simple', { id: 'a/b', inputs: INPUTS }, TRACEPARENT);
  expect(headers['nereid-request-id']).toBe('gw-1:1');
  for (const id of ['a%2Fb', 'gw-1:1', TRACE]) {
    const { statusCode, body } = await get(id);
    expect([statusCode, body.more, body.unanswered]).toEqual([200, false, []]);
    const call = { process: 'gw-1', door: 'http', owner: 'co-1', sends: 1 };
    expect(body.requests).toMatchObject([{ id: 'gw-1:1', request_id: 'a/b', trace_id: TRACE, model: 'simple', call }]);
  }
});

test('a refused one too, and why', async () => {
  await alone();
  const { headers } = await infer('nope', { id: 'x', inputs: INPUTS }, TRACEPARENT);
  const id = headers['nereid-request-id'];
  expect((await get(TRACE)).body.requests).toMatchObject([{ id, model: 'nope', error: { code: 'NOT_FOUND' } }]);
  const few = await infer('simple', { id: 'few', inputs: INPUTS.slice(1) });
  expect(few.headers['nereid-request-id']).toBe('gw-1:r2');
  const refused = { id: 'gw-1:r2', state: 'error', error: { code: 'INVALID_ARG' }, call: { sends: 0 } };
  expect((await get('few')).body.requests).toMatchObject([refused]);
});

test('an unknown id is 404 with what to look at', async () => {
  await alone();
  const { statusCode, body } = await get('x');
  expect([statusCode, body.code, body.field]).toEqual([404, 'NOT_FOUND', 'id']);
  expect(body.error).toMatch(/^no request 'x' is known here: .*explained_requests_max/);
});

test('who does not answer is named once the time is over, and asked nothing more', async () => {
  fixture = await httpFixture({ answer: echo });
  await infer('simple', { id: 'mine', inputs: INPUTS });
  const answer = get('mine');
  await expect.poll(() => fixture.received.filter(isQuestion).length).toBe(1);
  fixture.clock.advanceUs(1_000_000);
  expect((await answer).body).toMatchObject({ requests: [{ id: 'gw-1:1' }], unanswered: ['co-1'] });
  expect(fixture.received.filter(isQuestion)).toHaveLength(1);
});

test.each([
  ['x?limit=0', 'limit'],
  ['x?limit=101', 'limit'],
  ['x?limit=1&limit=2', 'limit'],
  ['%zz', 'id'],
  ['x'.repeat(1_025), 'id'],
])('%s is refused with the field', async (url, field) => {
  await alone();
  const { statusCode, body } = await get(url);
  expect([statusCode, body.code, body.field]).toEqual([400, 'INVALID_ARG', field]);
});

test('it belongs to the statistics that may be restricted', async () => {
  const restricted = parseRestricted(['statistics:key=secret']);
  if (!restricted.ok) throw new Error(restricted.error.message);
  await alone({ http: { restricted: restricted.value } });
  expect((await get('x')).statusCode).toBe(403);
  expect((await get('x', { key: 'secret' })).statusCode).toBe(404);
});
