import { once } from 'node:events';
import { type BytesInFlight, createBytesInFlight } from '@nereid/caller';
import type { InferMessage, Outcome } from '@nereid/protocol';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, responseTo, SIMPLE } from '../gateway-fixture.ts';
import { type HttpFixture, httpFixture, openConnection, post } from './http-fixture.ts';

const PATH = '/v2/models/simple/infer';
const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] });
const good = (id: string) => JSON.stringify({ id, inputs: [tensor('INPUT0'), tensor('INPUT1')] });
const answered = (id: string) => new RegExp(`"id":"${id}"[\\s\\S]*\\}$`);

const STREAMING = identity('repeat', 'UINT8', '-1', 'model_transaction_policy { decoupled: true }');

let fixture: HttpFixture;
let bytes: BytesInFlight;
let url: string;

async function serve(bytesMax: number, answer?: (message: InferMessage) => Outcome): Promise<void> {
  bytes = createBytesInFlight(bytesMax);
  const models = [modelRecord(SIMPLE), modelRecord(identity('bytes', 'UINT8')), modelRecord(STREAMING)];
  const http = { bytesInFlight: bytes, maxInputBytes: 4_000 };
  fixture = await httpFixture({ models, http, ...(answer === undefined ? {} : { answer }) });
  ({ url } = await fixture.http.listen());
}

afterEach(async () => {
  await fixture.http.close(0);
  expect(bytes.held).toBe(0);
  await fixture.gateway.close();
});

/** Answers what has come and was not answered yet. */
function answerAll(): void {
  for (const message of fixture.received.splice(0)) {
    if (message.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
  }
}

const nothingHeld = () => expect.poll(() => bytes.held).toBe(0);

describe('the bytes of a request', () => {
  it('are held from its first byte until its answer is written', async () => {
    await serve(100_000);
    const client = await openConnection(url);
    const whole = post(PATH, good('a'));
    client.socket.write(whole.slice(0, -10));
    const length = good('a').length;
    await expect.poll(() => bytes.held).toBe(length - 10);
    client.socket.write(whole.slice(-10));
    await fixture.arrived(1);
    expect(bytes.held).toBe(length);
    answerAll();
    await client.until(answered('a'));
    await nothingHeld();
    client.socket.destroy();
  });

  it.each<readonly [string, string]>([
    ['a mistake', post(PATH, '{"inputs":')],
    ['an unknown model', post('/v2/models/missing/infer', good('x'))],
    ['a body over its limit', post(PATH, ' '.repeat(5_000))],
    ['a job without a Redis', post('/v2/models/simple/jobs', good('x'))],
    ['compression that is not known', post(PATH, good('x'), ['Content-Encoding: br'])],
    ['a header length that is none', post(PATH, good('x'), ['Inference-Header-Content-Length: 9x'])],
  ])('are let go after %s', async (_what, request) => {
    await serve(100_000, echo);
    const client = await openConnection(url);
    client.socket.write(request + post(PATH, good('next')));
    await client.until(answered('next'));
    await nothingHeld();
    client.socket.destroy();
  });

  it.each<readonly [string, string, number]>([
    ['in the middle of its body', post(PATH, good('a')).slice(0, -5), 0],
    ['while it runs', post(PATH, good('a')), 1],
    ['with answers behind one that is not there yet', post(PATH, good('a')) + post(PATH, good('b')), 2],
  ])('are let go where the client leaves %s', async (_when, sent, requests) => {
    await serve(100_000);
    const client = await openConnection(url);
    client.socket.write(sent);
    await fixture.arrived(requests);
    await expect.poll(() => bytes.held).toBeGreaterThan(0);
    client.socket.destroy();
    await nothingHeld();
  });
});

describe('beyond the limit', () => {
  const refused = /HTTP\/1.1 503 [\s\S]*Retry-After: 1\r\n[\s\S]*too many bytes in flight[\s\S]*\}$/i;

  it('a request is refused with 503, and its connection goes on', async () => {
    await serve(4_000);
    const [first, second] = [await openConnection(url), await openConnection(url)];
    first.socket.write(post(PATH, good('first')));
    await fixture.arrived(1);
    second.socket.write(post(PATH, `${' '.repeat(3_800)}${good('large')}`));
    expect(await second.until(refused)).toMatch(/nereid-error: UNAVAILABLE/i);
    second.socket.write(post(PATH, good('small')));
    await fixture.arrived(2);
    answerAll();
    await Promise.all([first.until(answered('first')), second.until(answered('small'))]);
    await nothingHeld();
    for (const { socket } of [first, second]) socket.destroy();
  });

  it('a refused client is told when to come again', async () => {
    await serve(4_000);
    bytes.add(3_990);
    const answer = await fetch(`${url}${PATH}`, { method: 'POST', body: good('a') });
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
    bytes.release(3_990);
    await answer.arrayBuffer();
  });
});

describe('an answer', () => {
  const ANSWER_BYTES = 64_000_000;
  const large = ({ request }: InferMessage): Outcome => {
    const data = new Uint8Array(ANSWER_BYTES);
    const outputs = [{ name: 'OUTPUT', datatype: 'UINT8' as const, shape: [ANSWER_BYTES], data }];
    return { ok: true, response: { modelName: 'bytes', modelVersion: '1', id: request.id, parameters: {}, outputs } };
  };
  const request = post('/v2/models/bytes/infer', 'x', ['Inference-Header-Content-Length: 0']);

  it('is held until it is read, and keeps others out', async () => {
    await serve(1_000_000, large);
    const client = await openConnection(url);
    client.socket.pause();
    client.socket.write(request);
    await expect.poll(() => bytes.held).toBeGreaterThan(ANSWER_BYTES);
    expect((await fetch(`${url}/v2/models/bytes/infer`, { method: 'POST', body: 'x' })).status).toBe(503);
    let received = 0;
    client.socket.removeAllListeners('data');
    client.socket.on('data', (chunk) => {
      received += chunk.length;
    });
    client.socket.resume();
    await nothingHeld();
    await expect.poll(() => received).toBeGreaterThan(ANSWER_BYTES);
    client.socket.destroy();
  });

  it('that its client never reads goes with the connection', async () => {
    await serve(1_000_000_000, large);
    const client = await openConnection(url);
    client.socket.pause();
    client.socket.write(request);
    await expect.poll(() => bytes.held).toBeGreaterThan(ANSWER_BYTES);
    client.socket.destroy();
    await nothingHeld();
  });
});

describe('the answers of a stream', () => {
  const CHUNK_BYTES = 1_000_000;
  const CHUNKS = 20;
  const stream = post('/v2/models/repeat/generate_stream', '{"INPUT":7}');

  /** Answers the newest request with so much that a socket does not take it unread. */
  function sendChunks(): void {
    const message = fixture.received.at(-1);
    if (message?.kind !== 'infer') throw new Error('no request came');
    const data = new Uint8Array(CHUNK_BYTES);
    const outputs = [{ name: 'OUTPUT', datatype: 'UINT8' as const, shape: [CHUNK_BYTES], data }];
    const response = { modelName: 'repeat', modelVersion: '1', id: '', parameters: {}, outputs };
    for (let chunk = 0; chunk < CHUNKS; chunk++) {
      fixture.coordinator.send('gw-1', { ...responseTo(message, { ok: true, response }), chunk, last: false });
    }
  }

  it.each<readonly [string, string]>([
    ['that its client does not read', ''],
    ['behind another of its connection', post(PATH, good('first'))],
  ])('%s are held until it leaves', async (_which, before) => {
    await serve(1_000_000_000);
    const client = await openConnection(url);
    client.socket.pause();
    client.socket.write(before + stream);
    await fixture.arrived(before === '' ? 1 : 2);
    sendChunks();
    await expect.poll(() => bytes.held).toBeGreaterThan((CHUNKS / 2) * CHUNK_BYTES);
    client.socket.destroy();
    await nothingHeld();
  });
});

it('whatever clients do, nothing is held in the end', async () => {
  const step = fc.constantFrom('send', 'part', 'rest', 'bad', 'large', 'answer', 'leave', 'reset');
  await serve(10_000);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      let client = await openConnection(url);
      const whole = post(PATH, good('p'));
      let begun = false;
      for (const next of steps) {
        if (client.socket.destroyed) client = await openConnection(url);
        if (begun && next !== 'leave' && next !== 'reset') {
          client.socket.write(whole.slice(40));
          begun = false;
        }
        if (next === 'send') client.socket.write(whole);
        else if (next === 'part') client.socket.write(whole.slice(0, 40));
        else if (next === 'bad') client.socket.write(post(PATH, '{'));
        else if (next === 'large') client.socket.write(post(PATH, ' '.repeat(4_500)));
        else if (next === 'answer') answerAll();
        else if (next === 'leave') client.socket.end();
        else if (next === 'reset') client.socket.resetAndDestroy();
        begun = next === 'part';
        if (next === 'leave' && !client.socket.closed) {
          client.socket.destroy();
          await once(client.socket, 'close');
        }
      }
      client.socket.destroy();
      await nothingHeld();
      fixture.received.length = 0;
    }),
    { numRuns: 30 },
  );
});
