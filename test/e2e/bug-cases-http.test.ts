import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import { deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { memoryGrowthKib, memoryKib } from './memory.ts';
import { metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput, readAnswer } from './requests.ts';

// What public trackers tell of inference servers, over HTTP: JSON, shapes, datatypes, BYTES, the wire and generate. Each
// begins with the case's id; test/bug-cases.json lists them.

const SHAPE_MEMORY_MAX_KIB = 50 * 1024;
const CHUNKS_MEMORY_MAX_KIB = 100 * 1024;
const DEEP = 100_000;
const MANY_CHUNKS = 70_000;
const HEAD_END = '\r\n\r\n';

/** Models that give INPUT0 back: name, datatype, dims, and the batch size where there is one. */
const MODELS: readonly [name: string, datatype: string, dims: readonly number[], maxBatchSize?: number][] = [
  ['id_fp32', 'FP32', [-1]],
  ['id_fp16', 'FP16', [-1]],
  ['id_uint8', 'UINT8', [-1]],
  ['id_int8', 'INT8', [-1]],
  ['id_bytes', 'BYTES', [-1]],
  ['rows', 'FP32', [3], 4],
  ['cube', 'FP32', [1, -1, 3]],
];

/** Decoupled: answers VALUE times, counting from 0. */
const COUNTS = `export const execute = (requests) => requests.map(async function* ({ inputs }) {
  for (let n = 0; n < inputs.get('VALUE').data[0]; n++) {
    yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(n) } } };
  }
});`;

const one = (datatype: string, shape: readonly number[], data: readonly unknown[]) =>
  oneInput('INPUT0', datatype, shape, data);
const GOOD = one('FP32', [1], [2.5]);
const withShape = (shape: string) => `{"inputs":[{"name":"INPUT0","shape":${shape},"datatype":"FP32","data":[1]}]}`;
const withParameter = (value: string) => GOOD.replace('{', `{"parameters":{"stop":${value}},`);
const nested = (depth: number) => GOOD.replace('2.5', `${'['.repeat(depth)}2.5${']'.repeat(depth)}`);
const B64 = [{ b64: 'AAAA' }];

/** Refused with 400, and a text that says what the case asks for. */
const refused: [id: string, what: string, model: string, body: string, text: RegExp][] = [
  ['BC-001', 'a body of three spaces', 'id_fp32', '   ', /JSON/],
  ['BC-002', 'a shape that is text', 'id_bytes', one('BYTES', [1], B64).replace('[1]', '"-1"'), /'shape'/],
  ['BC-005', 'a body cut after 27 bytes', 'id_fp32', GOOD.slice(0, 27), /at \d+/],
  ['BC-005', 'two braces too many', 'id_fp32', `${GOOD}}}`, new RegExp(`at ${GOOD.length}`)],
  ['BC-007', 'a negative dimension', 'id_fp32', withShape('[-1]'), /'shape'/],
  ['BC-007', 'a dimension with a point', 'id_fp32', withShape('[1.0]'), /'shape'/],
  ['BC-007', 'a nested dimension', 'id_fp32', withShape('[[1]]'), /'shape'/],
  ['BC-008', 'a list as a parameter', 'id_fp32', withParameter('[1,2]'), /'stop'.*'int', 'bool', or 'string'/],
  ['BC-008', 'null as a parameter', 'id_fp32', withParameter('null'), /'stop'.*'int', 'bool', or 'string'/],
  ['BC-008', 'an object as a parameter', 'id_fp32', withParameter('{}'), /'stop'.*'int', 'bool', or 'string'/],
  [
    'BC-010',
    'no batch dimension',
    'rows',
    one('FP32', [3], [1, 2, 3]),
    /Expected \[-1,3\], got \[3\].*batch dimension/,
  ],
  ['BC-013', 'a batch past 32 bits', 'rows', one('FP32', [2 ** 32 + 1, 3], [1, 2, 3]), /shape|batch/],
  ['BC-016', 'a batch over the limit', 'rows', one('FP32', [5, 3], Array(15).fill(1)), /<= 4/],
  ['BC-017', 'too few dimensions', 'cube', one('FP32', [2, 3], Array(6).fill(1)), /\[1,-1,3\], got \[2,3\]/],
  ['BC-017', 'too many dimensions', 'rows', one('FP32', [1, 3, 1], [1, 2, 3]), /\[-1,3\], got \[1,3,1\]/],
  ['BC-019', 'FP16 in JSON', 'id_fp16', one('FP16', [1], [1.0]), /binary/],
  ['BC-020', '256 as UINT8', 'id_uint8', one('UINT8', [1], [256]), /out of range/],
  ['BC-020', '300 as INT8', 'id_int8', one('INT8', [1], [300]), /out of range/],
  ['BC-020', '-129 as INT8', 'id_int8', one('INT8', [1], [-129]), /out of range/],
  ['BC-022', 'INT8 for BYTES', 'id_bytes', one('INT8', [1], [1]), /'INT8'.*'BYTES'/],
  ['BC-022', 'INT32 for FP32', 'id_fp32', one('INT32', [1], [1]), /'INT32'.*'FP32'/],
  ['BC-023', 'the datatype "string"', 'id_bytes', one('string', [1], ['a']), /invalid datatype/],
  ['BC-023', 'the datatype "fp32"', 'id_fp32', one('fp32', [1], [1]), /invalid datatype/],
  ['BC-023', 'the datatype "TYPE_FP32"', 'id_fp32', one('TYPE_FP32', [1], [1]), /invalid datatype/],
  ['BC-023', 'the datatype "STRING"', 'id_bytes', one('STRING', [1], ['a']), /invalid datatype/],
  ['BC-029', 'an object with base64', 'id_bytes', one('BYTES', [1], B64), /string.*base64/],
];

/** A binary request: the header's members, and its bytes. */
function binary(datatype: string, shape: readonly number[], bytes: Uint8Array, size = bytes.byteLength): Binary {
  const inputs = [{ name: 'INPUT0', shape, datatype, parameters: { binary_data_size: size } }];
  const header = JSON.stringify({ inputs, parameters: { binary_data_output: true } });
  return { header, body: new Uint8Array(Buffer.concat([Buffer.from(header), bytes])) };
}

interface Binary {
  readonly header: string;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** The BYTES element behind its length, which may lie. */
function element(text: string, length = text.length): Buffer {
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32LE(length);
  return Buffer.concat([prefix, Buffer.from(text)]);
}

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
const LIE = 50_529_027;

const refusedBinary: [id: string, what: string, model: string, request: Binary, text: RegExp][] = [
  ['BC-025', 'a length past the data', 'id_bytes', binary('BYTES', [1], element('abc', LIE)), /50529027.* 3 bytes/],
  // Read as a length, "hell" is 0x6c6c6568.
  [
    'BC-025',
    'text without a length',
    'id_bytes',
    binary('BYTES', [1], Buffer.from('hello')),
    new RegExp(`${0x6c6c6568}.* 1 bytes`),
  ],
  [
    'BC-026',
    'one string for three',
    'id_bytes',
    binary('BYTES', [3], element('a')),
    /expected 3 string elements .*got 1/,
  ],
  [
    'BC-026',
    'two strings for one',
    'id_bytes',
    binary('BYTES', [1], Buffer.concat([element('a'), element('b')])),
    /elements 2 .*expecting 1/,
  ],
  ['BC-026', 'no room for a length', 'id_bytes', binary('BYTES', [1], Buffer.from('abc')), /4 bytes.* 3 bytes/],
  ['BC-032', 'a size past the body', 'id_fp32', binary('FP32', [2], floats(1, 2), 800), /792 additional bytes/],
  ['BC-032', 'half of the tensor', 'id_fp32', binary('FP32', [2], floats(1)), /Expected 8, got 4/],
  ['BC-034', 'four bytes left over', 'id_fp32', binary('FP32', [1], floats(1, 2), 4), /unexpected additional input/],
];

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  let served: Deployment;

  beforeAll(async () => {
    for (const [name, datatype, dims, maxBatchSize] of MODELS) folder.addEcho(name, datatype, dims, maxBatchSize);
    folder.addJavaScript('counts', COUNTS, 'model_transaction_policy { decoupled: true }');
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    for (const { code, output } of await served.stop()) expect(code, output).toBe(0);
    folder.remove();
  });

  const url = (model: string) => new URL(`${served.http}/v2/models/${model}/infer`);

  async function expectAlive(): Promise<void> {
    expect((await infer(served.http, 'id_fp32', GOOD)).outputs.get('OUTPUT0')?.data).toEqual([2.5]);
    expect((await fetch(`${served.http}/v2/health/ready`)).status).toBe(200);
  }

  function inferBinary(model: string, { header, body }: Binary) {
    return infer(served.http, model, body, { 'Inference-Header-Content-Length': String(header.length) });
  }

  test.each(refused)('%s: %s is refused', async (_id, _what, model, body, text) => {
    expect(await infer(served.http, model, body)).toMatchObject({ status: 400, error: expect.stringMatching(text) });
    await expectAlive();
  });

  test.each(refusedBinary)('%s: %s is refused, and no model sees it', async (_id, _what, model, request, text) => {
    const runs = () => metric(served.metrics, 'nv_inference_exec_count', { model });
    const before = await runs();
    expect(await inferBinary(model, request)).toMatchObject({ status: 400, error: expect.stringMatching(text) });
    expect(await runs()).toBe(before);
    await expectAlive();
  });

  test('BC-004: 100,000 brackets around a value are refused, 50 are not', async () => {
    expect((await infer(served.http, 'id_fp32', nested(DEEP))).status).toBe(400);
    expect((await infer(served.http, 'id_fp32', nested(50))).outputs.get('OUTPUT0')?.data).toEqual([2.5]);
    await expectAlive();
  });

  test('BC-014: a shape whose byte size overflows takes no memory', async () => {
    const before = memoryKib(served);
    const body = one('FP32', [1, 1], [1]).replace('[1,1]', '[1,4611686018427387905]');
    expect((await infer(served.http, 'rows', body)).status).toBe(400);
    expect(memoryGrowthKib(served, before)).toBeLessThan(SHAPE_MEMORY_MAX_KIB);
    await expectAlive();
  });

  test('BC-019: FP16 in binary comes back bit by bit, but not as JSON', async () => {
    // 1.0, -0, infinity, NaN with a payload, the smallest subnormal.
    const bits = Uint16Array.of(0x3c00, 0x8000, 0x7c00, 0x7e01, 0x0001);
    const sent = binary('FP16', [bits.length], new Uint8Array(bits.buffer));
    const headers = { 'Inference-Header-Content-Length': String(sent.header.length) };
    const response = await fetch(url('id_fp16'), { method: 'POST', headers, body: sent.body });
    expect(response.status).toBe(200);
    const received = Buffer.from(await response.arrayBuffer());
    const data = received.subarray(Number(response.headers.get('inference-header-content-length')));
    expect(data).toEqual(Buffer.from(bits.buffer));
    const header = sent.header.replace('"binary_data_output":true', '"binary_data_output":false');
    const body = new Uint8Array(Buffer.concat([Buffer.from(header), Buffer.from(bits.buffer)]));
    const refusal = await inferBinary('id_fp16', { header, body });
    expect(refusal).toMatchObject({ status: 400, error: expect.stringMatching(/FP16.*binary/) });
  });

  test('BC-028: strings of all kinds come back as they were', async () => {
    const texts = ['', 'a\u0000b', 'é', '漢', '😀'];
    const answer = await infer(served.http, 'id_bytes', one('BYTES', [texts.length], texts));
    expect(answer.outputs.get('OUTPUT0')?.data).toEqual(texts);
  });

  test('BC-031: bytes behind JSON whose length is not given are refused', async () => {
    const { body } = binary('FP32', [2], floats(1, 2));
    expect((await infer(served.http, 'id_fp32', body)).status).toBe(400);
    await expectAlive();
  });

  /** Sends the body in chunks of one byte each. */
  async function sendInBytes(body: string) {
    const sent = httpRequest(url('id_fp32'), { method: 'POST', headers: { 'Transfer-Encoding': 'chunked' } });
    const answered = once(sent, 'response');
    for (const byte of Buffer.from(body)) {
      if (!sent.write(Buffer.of(byte))) await Promise.race([once(sent, 'drain'), answered]);
    }
    sent.end();
    const [response] = await answered;
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk);
    return readAnswer(response.statusCode ?? 0, Buffer.concat(chunks).toString());
  }

  test('BC-035: chunks of one byte are read, and 70,000 more take no memory', async () => {
    expect((await sendInBytes(GOOD)).outputs.get('OUTPUT0')?.data).toEqual([2.5]);
    const before = memoryKib(served);
    expect([200, 400]).toContain((await sendInBytes(' '.repeat(MANY_CHUNKS) + GOOD)).status);
    expect(memoryGrowthKib(served, before)).toBeLessThan(CHUNKS_MEMORY_MAX_KIB);
    await expectAlive();
  });

  describe('BC-037: content that is', () => {
    test.each([
      ['broken gzip', 'gzip', Buffer.from('notgzip'), 400],
      ['of an unknown encoding', 'br', Buffer.from(GOOD), 501],
      ['good gzip', 'gzip', gzipSync(GOOD), 200],
      ['good deflate', 'deflate', deflateSync(GOOD), 200],
    ])('%s', async (_what, encoding, body, status) => {
      const answer = await infer(served.http, 'id_fp32', new Uint8Array(body), { 'Content-Encoding': encoding });
      expect(answer.status).toBe(status);
      if (status === 200) expect(answer.outputs.get('OUTPUT0')?.data).toEqual([2.5]);
      else expect(answer.error).toMatch(/./);
      await expectAlive();
    });
  });

  test.each([
    [1, { model_name: 'counts', model_version: '1', VALUE: 0 }],
    [0, { error: expect.stringContaining('use generate stream') }],
    [2, { error: expect.stringContaining('use generate stream') }],
  ])('BC-122: generate on a model that gives %i answers', async (count, expected) => {
    const generate = `${served.http}/v2/models/counts/generate`;
    const response = await fetch(generate, { method: 'POST', body: JSON.stringify({ VALUE: count }) });
    expect({ status: response.status, body: await response.json() }).toEqual({ status: 200, body: expected });
  });

  test('BC-038: a connection goes on after an error, and answers in order', async () => {
    const { hostname, port, pathname } = url('id_fp32');
    const socket = connect(Number(port), hostname);
    const received = answers(socket);
    const next = async () => {
      const step = await received.next();
      if (step.done) throw new Error('the connection ended');
      return step.value;
    };
    const message = (body: string) =>
      `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    socket.write(message('{"inputs":['));
    expect((await next()).status).toBe(400);
    socket.write(message(GOOD));
    expect((await next()).outputs.get('OUTPUT0')?.data).toEqual([2.5]);
    socket.write(message(GOOD) + message(GOOD.replace('2.5', '3.5')));
    expect((await next()).outputs.get('OUTPUT0')?.data).toEqual([2.5]);
    expect((await next()).outputs.get('OUTPUT0')?.data).toEqual([3.5]);
    socket.destroy();
  });
});

/** What a server answers on a connection, one after the other. */
async function* answers(socket: Socket): AsyncGenerator<Answer, void> {
  let rest = '';
  for await (const chunk of socket.setEncoding('latin1')) {
    rest += chunk;
    for (let end = rest.indexOf(HEAD_END); end >= 0; end = rest.indexOf(HEAD_END)) {
      const start = end + HEAD_END.length;
      const length = Number(/content-length: (\d+)/i.exec(rest)?.[1]);
      if (rest.length < start + length) break;
      const status = Number(/^HTTP\/1\.1 (\d+) /.exec(rest)?.[1]);
      yield readAnswer(status, rest.slice(start, start + length));
      rest = rest.slice(start + length);
    }
  }
}
