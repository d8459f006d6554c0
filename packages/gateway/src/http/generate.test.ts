import { connect } from 'node:net';
import type { ErrorInfo, InferMessage, Outcome, ResponseMessage, Tensor } from '@nereid/protocol';
import { tensorFromValues } from '@nereid/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { echo, type FixtureOptions, identity, modelRecord, responseTo } from '../gateway-fixture.ts';
import { type Connection, type HttpFixture, httpFixture, openConnection, post } from './http-fixture.ts';

const DECOUPLED = 'model_transaction_policy { decoupled: true }';
const MODELS = [
  modelRecord(identity('text', 'STRING', '1')),
  modelRecord(identity('ints', 'INT32')),
  modelRecord(identity('rows', 'INT32', '2', 'max_batch_size: 4')),
  modelRecord(identity('repeat', 'INT32', '1', DECOUPLED)),
];

const int32 = (value: number): Tensor => tensorFromValues('OUTPUT', 'INT32', [1], [value]);
const answer = (outputs: readonly Tensor[], parameters = {}): Outcome => ({
  ok: true,
  response: { modelName: 'repeat', modelVersion: '1', id: '', parameters, outputs },
});
const failure = (code: ErrorInfo['code'], message = 'failed'): Outcome => ({ ok: false, error: { code, message } });
const END = answer([]);

/** What a coordinator sends as the chunks of a request's one execution; the last is the last of all. */
function chunks(message: InferMessage, outcomes: readonly Outcome[]): readonly ResponseMessage[] {
  return outcomes.map((outcome, chunk) => {
    return { ...responseTo(message, outcome), chunk, last: chunk === outcomes.length - 1 };
  });
}

let open: { readonly fixture: HttpFixture; readonly clients: Connection[] } | undefined;

async function serve(options: FixtureOptions = {}): Promise<HttpFixture> {
  const fixture = await httpFixture({ models: MODELS, ...options });
  open = { fixture, clients: [] };
  return fixture;
}

/** After each test nothing may wait any more. */
afterEach(async () => {
  if (open === undefined) return;
  const { fixture, clients } = open;
  open = undefined;
  for (const { socket } of clients) socket.destroy();
  await fixture.http.close(0);
  expect(fixture.gateway.waiting).toBe(0);
  await fixture.gateway.close();
});

async function connection(fixture: HttpFixture): Promise<Connection> {
  const { url } = await fixture.http.listen();
  const client = await openConnection(url);
  open?.clients.push(client);
  return client;
}

/** The only request that has come to the coordinator. */
async function received(fixture: HttpFixture): Promise<InferMessage> {
  await fixture.arrived(1);
  const [message] = fixture.received;
  if (message?.kind !== 'infer') throw new Error('no request came');
  return message;
}

function send(fixture: HttpFixture, messages: readonly ResponseMessage[]): void {
  for (const message of messages) fixture.coordinator.send('gw-1', message);
}

function isRefused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', () => resolve(true));
  });
}

/** Asks with one element, and answers with these chunks. */
async function ask(path: string, outcomes: readonly Outcome[], body: object = { INPUT: 7 }) {
  const fixture = await serve();
  const asked = fixture.http.inject({ method: 'POST', url: path, payload: body });
  send(fixture, chunks(await received(fixture), outcomes));
  return { ...(await asked), fixture };
}

const GENERATE = '/v2/models/repeat/generate';
const STREAM = '/v2/models/repeat/generate_stream';
const NOT_ONE = {
  error:
    'generate expects model to produce exactly 1 response, ' +
    'use generate stream for model that generates various number of responses',
};
const event = (value: number) => `data: {"OUTPUT":${value},"model_name":"repeat","model_version":"1"}\n\n`;

describe('generate', () => {
  it.each([
    ['/v2/models/text/generate', { INPUT: 'hé ☃' }, '{"OUTPUT":"hé ☃","model_name":"text","model_version":"1"}'],
    [
      '/v2/models/text/versions/1/generate',
      { INPUT: 'a', id: 'g-1', colour: 'red', parameters: { count: 2 } },
      '{"OUTPUT":"a","id":"g-1","model_name":"text","model_version":"1"}',
    ],
    ['/v2/models/ints/generate', { INPUT: [1, 2, 3] }, '{"OUTPUT":[1,2,3],"model_name":"ints","model_version":"1"}'],
    ['/v2/models/ints/generate', { INPUT: 5 }, '{"OUTPUT":5,"model_name":"ints","model_version":"1"}'],
    [
      '/v2/models/rows/generate',
      { INPUT: [1, 2, 3, 4] },
      '{"OUTPUT":[1,2,3,4],"model_name":"rows","model_version":"1"}',
    ],
  ])('%s %j is answered %s', async (path, body, text) => {
    const fixture = await serve({ answer: echo });
    const response = await fixture.http.inject({ method: 'POST', url: path, payload: body });
    expect([response.statusCode, response.headers['content-type'], response.body]).toEqual([
      200,
      'application/json',
      text,
    ]);
  });

  it('goes in chunks, as in Triton', async () => {
    const { headers } = await ask(GENERATE, [answer([int32(1)]), END]);
    expect(headers['transfer-encoding']).toBe('chunked');
    expect(headers).not.toHaveProperty('content-length');
  });

  it('sends shapes by the metadata, parameters, and the id', async () => {
    const fixture = await serve({ answer: echo });
    const body = { INPUT: [1, 2, 3, 4], id: 'a', ratio: 0.5, parameters: { big: 1 } };
    await fixture.http.inject({ method: 'POST', url: '/v2/models/rows/generate', payload: body });
    const { request } = await received(fixture);
    expect(request.inputs[0]?.shape).toEqual([2, 2]);
    expect([request.id, request.parameters]).toEqual(['a', { id: 'a', ratio: 0.5, big: 1n }]);
  });

  it('has the parameters of the answer', async () => {
    const { body } = await ask(GENERATE, [answer([int32(1)], { last: true, n: 3n }), END]);
    expect(JSON.parse(body)).toEqual({ OUTPUT: 1, last: true, n: 3, model_name: 'repeat', model_version: '1' });
  });

  it('of no answer tells so with 200', async () => {
    const response = await ask(GENERATE, [END]);
    expect([response.statusCode, response.json()]).toEqual([200, NOT_ONE]);
  });

  it.each([
    ['200 where the first is one', answer([int32(1)]), 200],
    ['400 where the first is an error', failure('INTERNAL'), 400],
  ])('of two answers tells so with %s, and cancels the model', async (_, first, status) => {
    const fixture = await serve();
    const asked = fixture.http.inject({ method: 'POST', url: GENERATE, payload: { INPUT: 7 } });
    const message = await received(fixture);
    const [one, two] = chunks(message, [first, answer([int32(2)]), END]);
    if (one !== undefined && two !== undefined) send(fixture, [one, two]);
    const response = await asked;
    expect([response.statusCode, response.json()]).toEqual([status, NOT_ONE]);
    await fixture.arrived(2);
    expect(fixture.received[1]).toMatchObject({ kind: 'cancel', id: message.id });
  });

  it.each<ErrorInfo['code']>(['INTERNAL', 'NOT_FOUND', 'UNSUPPORTED', 'ALREADY_EXISTS', 'UNKNOWN', 'INVALID_ARG'])(
    'is 400 where the model fails with %s',
    async (code) => {
      const response = await ask(GENERATE, [failure(code, 'odd')]);
      expect([response.statusCode, response.json()]).toEqual([400, { error: 'odd' }]);
      expect(response.headers['nereid-error']).toBe(code);
    },
  );

  it('is 503 where the model cannot be asked at the moment', async () => {
    const response = await ask(GENERATE, [failure('UNAVAILABLE', 'full')]);
    expect([response.statusCode, response.json(), response.headers['retry-after']]).toEqual([
      503,
      { error: 'full' },
      '1',
    ]);
  });

  it('is 503 where the answer breaks off, whatever came before', async () => {
    const response = await ask(GENERATE, [answer([int32(1)]), failure('UNAVAILABLE', 'broke')]);
    expect([response.statusCode, response.json()]).toEqual([503, { error: 'broke' }]);
  });
});

describe('generate_stream', () => {
  it('sends each answer as an event, in their order', async () => {
    const response = await ask(STREAM, [answer([int32(4)]), answer([int32(5)]), END]);
    expect([response.statusCode, response.headers['content-type'], response.body]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
      event(4) + event(5),
    ]);
  });

  it('of a model that is not decoupled is one event', async () => {
    const fixture = await serve({ answer: echo });
    const payload = { INPUT: 'hello', id: 'g-2' };
    const response = await fixture.http.inject({ method: 'POST', url: '/v2/models/text/generate_stream', payload });
    expect(response.body).toBe('data: {"OUTPUT":"hello","id":"g-2","model_name":"text","model_version":"1"}\n\n');
  });

  it('of no answer is empty', async () => {
    const response = await ask(STREAM, [END]);
    expect([response.statusCode, response.headers['content-type'], response.body]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
      '',
    ]);
  });

  it('whose first answer is an error has status 400, and goes on', async () => {
    const response = await ask(STREAM, [failure('INTERNAL', 'not this'), answer([int32(5)]), END]);
    expect([response.statusCode, response.body]).toEqual([400, `data: {"error":"not this"}\n\n${event(5)}`]);
  });

  it('with an error later has status 200', async () => {
    const response = await ask(STREAM, [answer([int32(4)]), failure('UNAVAILABLE', 'broke "off"')]);
    expect([response.statusCode, response.body]).toEqual([200, `${event(4)}data: {"error":"broke \\"off\\""}\n\n`]);
  });

  it('with an answer that has no JSON form has an error in its place', async () => {
    const half: Tensor = { name: 'OUTPUT', datatype: 'FP16', shape: [1], data: new Uint8Array(2) };
    const response = await ask(STREAM, [answer([int32(4)]), answer([half]), answer([int32(5)]), END]);
    expect(response.body).toContain(`${event(4)}data: {"error":"sending FP16 data via JSON is not supported.`);
    expect(response.body.endsWith(event(5))).toBe(true);
  });

  it('that could not begin is refused like any request', async () => {
    const response = await ask(STREAM, [failure('UNAVAILABLE', 'full')]);
    expect([response.statusCode, response.headers['content-type']]).toEqual([503, 'application/json']);
    expect(response.json()).toEqual({ error: 'full' });
  });

  it('sends an answer when it comes, before the next is there', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    client.socket.write(post(STREAM, '{"INPUT":7}'));
    const [one, two, end] = chunks(await received(fixture), [answer([int32(1)]), answer([int32(2)]), END]);
    send(fixture, one === undefined ? [] : [one]);
    await client.until(/"OUTPUT":1,[^}]*\}\n\n/);
    expect(client.text()).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*Transfer-Encoding: chunked\r\n/);
    send(fixture, two === undefined || end === undefined ? [] : [two, end]);
    await client.until(/"OUTPUT":2,[\s\S]*\r\n0\r\n\r\n$/);
  });

  it('is cancelled where the client leaves', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    client.socket.write(post(STREAM, '{"INPUT":7}'));
    const message = await received(fixture);
    const [one] = chunks(message, [answer([int32(1)]), END]);
    send(fixture, one === undefined ? [] : [one]);
    await client.until(/"OUTPUT":1/);
    client.socket.resetAndDestroy();
    await fixture.arrived(2);
    expect(fixture.received[1]).toMatchObject({ kind: 'cancel', id: message.id });
    expect(fixture.gateway.waiting).toBe(0);
  });

  it('that its client does not read is cancelled at the bound, and told so once it is read', async () => {
    const limits = { stream_unread_chunks_max: 20 };
    const fixture = await serve({ limits });
    const client = await connection(fixture);
    client.socket.pause();
    client.socket.write(post(STREAM, '{"INPUT":7}'));
    const message = await received(fixture);
    const large = tensorFromValues('OUTPUT', 'INT32', [250_000], new Int32Array(250_000).fill(1_234_567));
    // Each is 2 MB of JSON: what a socket takes unread is filled by a few.
    for (let chunk = 0; fixture.gateway.waiting > 0 && chunk < 1_000; chunk++) {
      fixture.coordinator.send('gw-1', { ...responseTo(message, answer([large])), chunk, last: false });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(fixture.gateway.waiting).toBe(0);
    await fixture.arrived(2);
    expect(fixture.received[1]).toMatchObject({ kind: 'cancel', id: message.id });
    const tail = new Promise<string>((resolve) => {
      let text = '';
      client.socket.on('data', (chunk) => {
        text = (text + chunk.toString('latin1')).slice(-300);
        if (text.endsWith('\r\n0\r\n\r\n')) resolve(text);
      });
    });
    client.socket.resume();
    expect(await tail).toMatch(/answers come faster than they are read"\}\n\n\r\n0\r\n\r\n$/);
  });

  it('that runs when the server stops goes on to its end, and ends its connection', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    client.socket.write(post(STREAM, '{"INPUT":7}'));
    const [one, two, end] = chunks(await received(fixture), [answer([int32(1)]), answer([int32(2)]), END]);
    send(fixture, one === undefined ? [] : [one]);
    await client.until(/"OUTPUT":1/);
    fixture.gateway.drain();
    const closed = fixture.http.close(60_000);
    // From then on Node itself ends no connection that comes to rest.
    await expect.poll(() => isRefused(client.socket.remotePort ?? 0)).toBe(true);
    send(fixture, two === undefined || end === undefined ? [] : [two, end]);
    expect(await client.ended()).toMatch(/"OUTPUT":2,[\s\S]*\r\n0\r\n\r\n$/);
    await closed;
  });
});

describe('both refuse before anything is sent', () => {
  const rows: readonly (readonly [string, string, object | string, Record<string, string>, number, RegExp])[] = [
    ['an unknown model', 'missing', { INPUT: 1 }, {}, 404, /^Request for unknown model: 'missing' is not found$/],
    ['an unknown version', 'text/versions/7', { INPUT: 1 }, {}, 404, /'text' version 7 is not found$/],
    [
      'a missing input',
      'text',
      {},
      {},
      400,
      /^\[request id: <id_unknown>\] expected 1 inputs but got 0 inputs for model 'text'\. Got input\(s\) \[\], but missing/,
    ],
    ['a missing input, with the id', 'text', { id: 'q' }, {}, 400, /^\[request id: q\] expected 1 inputs/],
    ['too few elements', 'rows', { INPUT: [1] }, {}, 400, /^The schema can not convert input 'INPUT' to tensor/],
    ['too many rows', 'rows', { INPUT: Array(10).fill(1) }, {}, 400, /batch-size must be <= 4 for 'rows'$/],
    ['a wrong kind', 'text', { INPUT: 5 }, {}, 400, /^Unable to parse JSON bytes array: /],
    ['no body', 'text', '', {}, 400, /^failed to parse the request JSON buffer: /],
    ['no JSON', 'text', 'hello', {}, 400, /^failed to parse the request JSON buffer: /],
    [
      'a compressed body',
      'text',
      'x',
      { 'Content-Encoding': 'gzip' },
      400,
      /^Unsupported content-encoding, only 'identity' is supported\.$/,
    ],
    ['a body over the limit', 'text', ' '.repeat(1_000_001), {}, 400, /^request JSON size of 1000001 bytes exceeds/],
  ];

  it.each(rows)('%s', async (_, model, payload, headers, status, message) => {
    const fixture = await serve();
    for (const route of ['generate', 'generate_stream']) {
      const response = await fixture.http.inject({
        method: 'POST',
        url: `/v2/models/${model}/${route}`,
        payload,
        headers,
      });
      expect([response.statusCode, response.headers['content-type']]).toEqual([status, 'application/json']);
      expect(Object.keys(response.json())).toEqual(['error']);
      expect(response.json().error).toMatch(message);
    }
    expect(fixture.received).toEqual([]);
  });

  it('while the gateway stops', async () => {
    const fixture = await serve();
    fixture.gateway.drain();
    const response = await fixture.http.inject({ method: 'POST', url: STREAM, payload: { INPUT: 1 } });
    expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '1']);
    expect(response.json().error).toMatch(/^Server is stopping/);
  });
});
