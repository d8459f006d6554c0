import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { memoryGrowthKib, memoryKib } from './memory.ts';
import { infer, oneInput, readAnswer, SIMPLE_SUM, simpleRequest } from './requests.ts';

const BODY_BYTES_MAX = 2_000_000;
const MEMORY_GROWTH_MAX_KIB = 50 * 1024;

const DEPTH = 100_000;
const withShape = (shape: string) =>
  `{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":${shape},"data":[1]},` +
  `{"name":"INPUT1","datatype":"INT32","shape":${shape},"data":[1]}]}`;
const nested = (open: string, close: string) => open.repeat(DEPTH) + close.repeat(DEPTH);

const refused: [rule: string, body: string, status: number, text: RegExp][] = [
  ['an empty body', '', 400, /./],
  ['text that is not JSON', 'hello', 400, /JSON/],
  ['a body that is cut short', simpleRequest().slice(0, -5), 400, /JSON/],
  ['a number as the body', '5', 400, /./],
  ['arrays nested 100,000 deep', `{"inputs":${nested('[', ']')}}`, 400, /./],
  ['objects nested 100,000 deep', `{"inputs":${nested('{"a":', '}')}}`, 400, /./],
  ['data nested 100,000 deep', withShape('[1,16]').replace('[1]', nested('[', ']')), 400, /./],
  ['100,000 opened and never closed', `{"inputs":${'['.repeat(DEPTH)}`, 400, /./],
  ['parameters nested 100,000 deep', `{"parameters":{"a":${nested('[', ']')}},"inputs":[]}`, 400, /./],
  ['a shape whose product overflows 64 bits', withShape('[4294967296,4294967296,4294967296]'), 400, /./],
  ['a shape whose byte size overflows 64 bits', withShape('[4611686018427387904,4]'), 400, /./],
  ['a shape whose product overflows to a small one', withShape('[1,4294967296,4294967296,16]'), 400, /./],
  ['a shape of a terabyte', withShape('[1,274877906944]'), 400, /./],
  ['a negative dimension', withShape('[1,-16]'), 400, /./],
  ['a dimension past 64 bits', withShape('[1,99999999999999999999999]'), 400, /./],
  ['fewer data than the shape says', withShape('[1,16]'), 400, /[Ss]hape/],
  ['a body over the limit', `${simpleRequest()}${' '.repeat(BODY_BYTES_MAX)}`, 400, /--http-max-input-size/],
];

describe.each(MODES)('in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [join(ROOT, 'model_repository')], [`--http-max-input-size=${BODY_BYTES_MAX}`]);
  });
  afterAll(async () => {
    for (const { code, output } of await served.stop()) expect(code, output).toBe(0);
  });

  async function expectSimpleAnswers(): Promise<void> {
    const answer = await infer(served.http, 'simple', simpleRequest());
    expect(answer.outputs.get('OUTPUT0')?.data).toEqual(SIMPLE_SUM);
  }

  test.each(refused)('%s is refused, and the server goes on', async (_rule, body, status, text) => {
    const before = memoryKib(served);
    const answer = await infer(served.http, 'simple', body);
    expect(answer).toMatchObject({ status, error: expect.stringMatching(text) });
    expect(memoryGrowthKib(served, before)).toBeLessThan(MEMORY_GROWTH_MAX_KIB);
    await expectSimpleAnswers();
  });

  test('an unknown model is not found', async () => {
    const answer = await infer(served.http, 'nothing', simpleRequest());
    expect(answer.status).toBe(404);
    expect(answer.error).toContain('nothing');
    await expectSimpleAnswers();
  });

  describe('a binary request', () => {
    const header = (size: number) =>
      JSON.stringify({
        inputs: ['INPUT0', 'INPUT1'].map((name) => {
          return { name, shape: [1, 16], datatype: 'INT32', parameters: { binary_data_size: size } };
        }),
        parameters: { binary_data_output: true },
      });

    const body = (text: string, tensorBytes: number) =>
      new Uint8Array(Buffer.concat([Buffer.from(text), Buffer.alloc(tensorBytes, 1)]));

    test('is answered in binary', async () => {
      const json = header(64);
      const tensors = new Int32Array([...SIMPLE_SUM, ...SIMPLE_SUM]);
      const sent = new Uint8Array(Buffer.concat([Buffer.from(json), new Uint8Array(tensors.buffer)]));
      const response = await fetch(`${served.http}/v2/models/simple/infer`, {
        method: 'POST',
        headers: { 'Inference-Header-Content-Length': String(json.length) },
        body: sent,
      });
      expect(response.status).toBe(200);
      const headerLength = Number(response.headers.get('inference-header-content-length'));
      const received = await response.arrayBuffer();
      const answer = readAnswer(200, Buffer.from(received, 0, headerLength).toString());
      expect(answer.outputs.get('OUTPUT0')?.parameters).toEqual({ binary_data_size: 64 });
      expect(new Int32Array(received.slice(headerLength))).toEqual(
        new Int32Array([...SIMPLE_SUM.map((value) => value * 2), ...SIMPLE_SUM.map(() => 0)]),
      );
    });

    test.each([
      ['whose sizes promise more than came', header(64), 100, {}],
      ['whose size overflows', header(2 ** 62), 64, {}],
      ['whose size is not the shape’s', header(60), 120, {}],
      ['with a header longer than the body', header(64), 128, { 'Inference-Header-Content-Length': '100000' }],
      ['with a negative header length', header(64), 128, { 'Inference-Header-Content-Length': '-5' }],
    ] as const)('%s is refused', async (_rule, text, tensorBytes, headers) => {
      const length = { 'Inference-Header-Content-Length': String(text.length), ...headers };
      const answer = await infer(served.http, 'simple', body(text, tensorBytes), length);
      expect(answer.status).toBe(400);
      expect(answer.error).toMatch(/./);
      await expectSimpleAnswers();
    });
  });

  describe('a connection', () => {
    test('that announces more than it sends, and leaves', async () => {
      const url = new URL(`${served.http}/v2/models/simple/infer`);
      const sent = request(url, { method: 'POST', headers: { 'Content-Length': '1000' } });
      sent.on('error', () => {});
      await new Promise<void>((resolve) => sent.write('{"inputs":', () => resolve()));
      sent.destroy();
      await expectSimpleAnswers();
    });

    test('that announces a terabyte', async () => {
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const url = new URL(`${served.http}/v2/models/simple/infer`);
        const sent = request(url, { method: 'POST', headers: { 'Content-Length': String(2 ** 40) } }, (response) => {
          response.resume();
          resolve(response.statusCode);
          sent.destroy();
        });
        sent.on('error', reject);
        sent.write('{');
      });
      expect(status).toBe(400);
      await expectSimpleAnswers();
    });

    test('that does not speak HTTP', async () => {
      const socket = connect(Number(new URL(served.http).port), '127.0.0.1');
      let received = '';
      socket.on('data', (chunk) => {
        received += chunk.toString();
      });
      socket.write('hello, is this a server?\r\n\r\n');
      await new Promise((resolve) => socket.on('close', resolve));
      expect(received).toMatch(/^HTTP\/1\.1 400 /);
      await expectSimpleAnswers();
    });
  });

  test('the JavaScript sample masks what is private', async () => {
    const text = 'Ask ann@example.com or +1 555 010 9999.';
    const answer = await infer(served.http, 'redact', oneInput('TEXT', 'BYTES', [2, 1], [text, 'nothing here']));
    expect(answer.outputs.get('REDACTED')?.data).toEqual(['Ask [email] or [phone].', 'nothing here']);
    expect(answer.outputs.get('COUNT')?.data).toEqual([2, 0]);
  });
});
