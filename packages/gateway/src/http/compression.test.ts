import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, responseTo, SIMPLE } from '../gateway-fixture.ts';
import { httpFixture, openConnection } from './http-fixture.ts';

const MODELS = [modelRecord(SIMPLE), modelRecord(identity('floats', 'FP32'))];
const PATH = '/v2/models/simple/infer';

const tensor = (name: string, data: readonly number[]) => ({ name, datatype: 'INT32', shape: [1, 2], data });
const GOOD = { inputs: [tensor('INPUT0', [1, 2]), tensor('INPUT1', [3, 4])] };
const ANSWER = {
  model_name: 'simple',
  model_version: '1',
  outputs: [tensor('OUTPUT0', [1, 2]), tensor('OUTPUT1', [3, 4])],
};

async function post(payload: Buffer | object, headers: Readonly<Record<string, string>>, url = PATH) {
  const fixture = await httpFixture({ models: MODELS, answer: echo });
  const response = await fixture.http.inject({ method: 'POST', url, headers, payload });
  expect(fixture.gateway.waiting).toBe(0);
  return response;
}

function binary() {
  const inputs = ['INPUT0', 'INPUT1'].map((name) => {
    return { name, datatype: 'INT32', shape: [1, 2], parameters: { binary_data_size: 8 } };
  });
  const json = Buffer.from(JSON.stringify({ inputs, parameters: { binary_data_output: true } }));
  return { json, body: Buffer.concat([json, Buffer.from(Int32Array.of(1, 2, 3, 4).buffer)]) };
}

describe('a compressed request', () => {
  const json = Buffer.from(JSON.stringify(GOOD));
  it.each([
    ['gzip', gzipSync(json)],
    ['deflate', deflateSync(json)],
    // Each by what it begins with, as in Triton.
    ['gzip', deflateSync(json)],
    ['deflate', gzipSync(json)],
    ['identity', json],
  ])('with Content-Encoding %s is taken', async (coding, payload) => {
    const response = await post(payload, { 'Content-Encoding': coding });
    expect([response.statusCode, response.json()]).toEqual([200, ANSWER]);
    expect(response.headers).not.toHaveProperty('content-encoding');
    expect(response.headers).not.toHaveProperty('vary');
  });

  it('has the length of its JSON as it is inflated', async () => {
    const { json: header, body } = binary();
    const response = await post(gzipSync(body), {
      'Content-Encoding': 'gzip',
      'Inference-Header-Content-Length': String(header.length),
    });
    expect(response.statusCode).toBe(200);
    expect([...response.rawPayload.subarray(-16)]).toEqual([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
  });

  it('may be a raw tensor of megabytes', async () => {
    const raw = Buffer.alloc(900_000, 3);
    const headers = { 'Content-Encoding': 'deflate', 'Inference-Header-Content-Length': '0' };
    const response = await post(deflateSync(raw), headers, '/v2/models/floats/infer');
    expect(response.rawPayload.subarray(-900_000).equals(raw)).toBe(true);
  });

  it.each([
    ['that is not', Buffer.from('notgzip'), /^failed to decompress the request body/],
    ['cut short', gzipSync(json).subarray(0, 40), /^failed to decompress the request body/],
    [
      'that becomes too large',
      gzipSync(Buffer.alloc(1_000_001, ' ')),
      /^decompressed request JSON size exceeds the maximum allowed input size of 1000000 bytes. Use --http-max-input-size/,
    ],
  ])('%s is refused', async (_, payload, message) => {
    const response = await post(payload, { 'Content-Encoding': 'gzip' });
    expect(response.statusCode).toBe(400);
    expect(response.json().error).toMatch(message);
    expect(response.headers['nereid-error']).toBe('INVALID_ARG; field=body');
  });
});

describe('an answer', () => {
  it.each([
    ['gzip', gunzipSync],
    ['deflate', inflateSync],
  ])('is compressed by %s where the client accepts it', async (coding, open) => {
    const response = await post(GOOD, { 'Accept-Encoding': coding });
    const { headers, rawPayload } = response;
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'content-encoding': coding,
      'content-length': String(rawPayload.length),
      vary: 'Accept-Encoding',
    });
    expect(JSON.parse(open(rawPayload).toString())).toEqual(ANSWER);
  });

  it('with tensors has the length of its JSON before it is compressed', async () => {
    const { json, body } = binary();
    const response = await post(body, {
      'Inference-Header-Content-Length': String(json.length),
      'Accept-Encoding': 'gzip',
    });
    const whole = gunzipSync(response.rawPayload);
    const length = Number(response.headers['inference-header-content-length']);
    expect(JSON.parse(whole.subarray(0, length).toString()).model_name).toBe('simple');
    expect([...whole.subarray(length)]).toEqual([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
  });

  it('of megabytes is compressed', async () => {
    const headers = { 'Inference-Header-Content-Length': '0', 'Accept-Encoding': 'deflate' };
    const raw = Buffer.alloc(900_000, 3);
    const response = await post(raw, headers, '/v2/models/floats/infer');
    expect(response.rawPayload.length).toBeLessThan(100_000);
    expect(inflateSync(response.rawPayload).subarray(-900_000).equals(raw)).toBe(true);
  });

  it.each(['identity', '*', 'br', 'gzip;q=0'])('is as it is with Accept-Encoding %s', async (accepted) => {
    const response = await post(GOOD, { 'Accept-Encoding': accepted });
    expect(response.json()).toEqual(ANSWER);
    expect(response.headers).not.toHaveProperty('content-encoding');
    expect(response.headers.vary).toBe('Accept-Encoding');
  });

  it('that is an error, or no infer, is never compressed', async () => {
    const accepts = { 'Accept-Encoding': 'gzip' };
    const missing = await post(GOOD, accepts, '/v2/models/missing/infer');
    expect(missing.json()).toEqual({ error: "Request for unknown model: 'missing' is not found" });
    const { http } = await httpFixture({ models: MODELS });
    const metadata = await http.inject({ url: '/v2/models/simple', headers: accepts });
    expect(metadata.json()).toMatchObject({ name: 'simple' });
    expect(metadata.headers).not.toHaveProperty('content-encoding');
  });
});

describe('on one connection', () => {
  it('large compressed answers keep the order of their requests', async () => {
    const fixture = await httpFixture({ models: MODELS });
    const { url } = await fixture.http.listen();
    const client = await openConnection(url);
    const raw = (bytes: number) => {
      const head = ['POST /v2/models/floats/infer HTTP/1.1', 'Host: test', `Content-Length: ${bytes}`];
      return `${[...head, 'Inference-Header-Content-Length: 0', 'Accept-Encoding: gzip'].join('\r\n')}\r\n\r\n${'x'.repeat(bytes)}`;
    };
    client.socket.write(raw(800_000) + raw(8));
    await fixture.arrived(2);
    for (const message of [...fixture.received].reverse()) {
      if (message.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    }
    const text = await client.until(/\nContent-Length: \d+[\s\S]*\nContent-Length: \d+\r\n[\s\S]*\r\n\r\n/);
    const lengths = [...text.matchAll(/\r\nContent-Length: (\d+)\r\n/g)].map(([, length]) => Number(length));
    expect(lengths[0]).toBeGreaterThan(lengths[1] ?? Number.POSITIVE_INFINITY);
    client.socket.destroy();
    await fixture.http.close(0);
    await fixture.gateway.close();
  });

  it('a client that leaves while its request is inflated leaves nothing behind', async () => {
    const fixture = await httpFixture({ models: MODELS, answer: echo });
    const { url } = await fixture.http.listen();
    const client = await openConnection(url);
    const body = gzipSync(Buffer.alloc(900_000, ' '));
    const head = [`POST ${PATH} HTTP/1.1`, 'Host: test', `Content-Length: ${body.length}`, 'Content-Encoding: gzip'];
    client.socket.write(`${head.join('\r\n')}\r\n\r\n`);
    client.socket.end(body);
    await client.ended();
    await fixture.http.close(0);
    expect(fixture.gateway.waiting).toBe(0);
    await fixture.gateway.close();
  });
});
