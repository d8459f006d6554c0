import type { InferMessage, Outcome } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, SIMPLE } from '../gateway-fixture.ts';
import { httpFixture } from './http-fixture.ts';

const MODELS = [
  modelRecord(SIMPLE),
  { ...modelRecord(SIMPLE.replace('"simple"', '"labelled"')), labels: { OUTPUT0: ['apple', 'pear'] } },
  modelRecord(identity('floats', 'FP32')),
  modelRecord(identity('halves', 'FP16')),
  modelRecord(identity('text', 'STRING', '1')),
  modelRecord(identity('stream', 'FP32', '-1', 'model_transaction_policy { decoupled: true }')),
  modelRecord(identity('broken', 'FP32'), [{ version: '1', state: 'UNAVAILABLE', reason: 'Internal: no' }]),
];

interface Asked {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly answer?: (message: InferMessage) => Outcome;
}

async function infer({ path = '/v2/models/simple/infer', headers = {}, body, answer = echo }: Asked) {
  const fixture = await httpFixture({ models: MODELS, answer });
  const payload = typeof body === 'string' || body instanceof Buffer ? body : JSON.stringify(body);
  const response = await fixture.http.inject({ method: 'POST', url: path, headers, payload });
  expect(fixture.gateway.waiting).toBe(0);
  return { ...response, requests: fixture.received, raw: response.rawPayload };
}

const tensor = (name: string, data: readonly number[] = [1, 2]) => {
  return { name, datatype: 'INT32', shape: [1, 2], data };
};
const GOOD = { id: 'r1', inputs: [tensor('INPUT0'), tensor('INPUT1', [3, 4])] };
const floats = (shape: readonly number[], data: readonly unknown[]) => {
  return { inputs: [{ name: 'INPUT', datatype: 'FP32', shape, data }] };
};
const output = (name: string, data: readonly number[]) => ({ name, datatype: 'INT32', shape: [1, 2], data });

describe('a good request', () => {
  it('in JSON is answered in JSON', async () => {
    const response = await infer({ body: GOOD });
    expect([response.statusCode, response.headers['content-type']]).toEqual([200, 'application/json']);
    expect(response.headers).not.toHaveProperty('inference-header-content-length');
    expect(response.json()).toEqual({
      id: 'r1',
      model_name: 'simple',
      model_version: '1',
      outputs: [output('OUTPUT0', [1, 2]), output('OUTPUT1', [3, 4])],
    });
  });

  it('is sent as the greatest version unless it names one, without leading zeros', async () => {
    const versions = await Promise.all(
      ['/v2/models/simple/infer', '/v2/models/simple/versions/1/infer', '/v2/models/simple/versions/001/infer'].map(
        async (path) => {
          const [message] = (await infer({ path, body: GOOD })).requests;
          return message?.kind === 'infer' ? message.request.modelVersion : undefined;
        },
      ),
    );
    expect(versions).toEqual(['', '1', '1']);
  });

  it('gives in binary the outputs that ask for it, and by default those that are not listed', async () => {
    const outputs = [{ name: 'OUTPUT1', parameters: { binary_data: true } }];
    const response = await infer({ body: { ...GOOD, outputs } });
    const length = Number(response.headers['inference-header-content-length']);
    const json = JSON.parse(response.raw.subarray(0, length).toString());
    expect(response.headers['content-type']).toBe('application/octet-stream');
    expect(response.headers['content-length']).toBe(String(length + 8));
    expect(json.outputs).toEqual([
      output('OUTPUT0', [1, 2]),
      { name: 'OUTPUT1', datatype: 'INT32', shape: [1, 2], parameters: { binary_data_size: 8 } },
    ]);
    expect([...response.raw.subarray(length)]).toEqual([3, 0, 0, 0, 4, 0, 0, 0]);

    const all = await infer({ body: { ...GOOD, parameters: { binary_data_output: true } } });
    const start = Number(all.headers['inference-header-content-length']);
    expect(all.raw.byteLength - start).toBe(16);
  });

  it('may list an output twice; the first says in which form', async () => {
    const outputs = [{ name: 'OUTPUT0' }, { name: 'OUTPUT0', parameters: { binary_data: true } }];
    const answer = (message: InferMessage): Outcome => {
      expect(message.request.requestedOutputs).toEqual(['OUTPUT0']);
      const all = echo(message);
      if (!all.ok) return all;
      return { ok: true, response: { ...all.response, outputs: all.response.outputs.slice(0, 1) } };
    };
    const response = await infer({ body: { ...GOOD, outputs }, answer });
    expect(response.json().outputs).toEqual([output('OUTPUT0', [1, 2])]);
  });

  it.each(['text/plain', 'application/json', ';;; no type', 'application/octet-stream', ''])(
    'may have the content type "%s"',
    async (type) => {
      expect((await infer({ body: GOOD, headers: { 'content-type': type } })).statusCode).toBe(200);
    },
  );

  it('may say that it is not compressed', async () => {
    expect((await infer({ body: GOOD, headers: { 'content-encoding': 'identity' } })).statusCode).toBe(200);
  });

  it('gives the classes of an output, in JSON and in binary', async () => {
    const outputs = [
      { name: 'OUTPUT0', parameters: { classification: 1 } },
      { name: 'OUTPUT1', parameters: { classification: 5, binary_data: true } },
    ];
    const response = await infer({ path: '/v2/models/labelled/infer', body: { ...GOOD, outputs } });
    const length = Number(response.headers['inference-header-content-length']);
    expect(JSON.parse(response.raw.subarray(0, length).toString()).outputs).toEqual([
      { name: 'OUTPUT0', datatype: 'BYTES', shape: [1, 1], data: ['2:1:pear'] },
      { name: 'OUTPUT1', datatype: 'BYTES', shape: [1, 2], parameters: { binary_data_size: 14 } },
    ]);
    expect(response.raw.subarray(length).toString('latin1')).toBe('\x03\0\0\x004:1\x03\0\0\x003:0');
  });

  it('may have its tensors behind the JSON', async () => {
    const inputs = ['INPUT0', 'INPUT1'].map((name) => {
      return { name, datatype: 'INT32', shape: [1, 2], parameters: { binary_data_size: 8 } };
    });
    const json = JSON.stringify({ inputs });
    const body = Buffer.concat([Buffer.from(json), Buffer.from(Int32Array.of(1, 2, 3, 4).buffer)]);
    const response = await infer({ body, headers: { 'Inference-Header-Content-Length': String(json.length) } });
    expect(response.json().outputs).toEqual([output('OUTPUT0', [1, 2]), output('OUTPUT1', [3, 4])]);
  });

  it('may be one raw tensor; its answer is binary', async () => {
    const body = Buffer.from(Float32Array.of(1.5, 2.5).buffer);
    const headers = { 'Inference-Header-Content-Length': '0' };
    const response = await infer({ path: '/v2/models/floats/infer', body, headers });
    const length = Number(response.headers['inference-header-content-length']);
    expect(JSON.parse(response.raw.subarray(0, length).toString()).outputs).toEqual([
      { name: 'OUTPUT', datatype: 'FP32', shape: [2], parameters: { binary_data_size: 8 } },
    ]);
    expect(response.raw.subarray(length)).toEqual(body);
  });

  it('may have an answer of many megabytes', async () => {
    const body = Buffer.alloc(900_000, 1);
    const headers = { 'Inference-Header-Content-Length': '0' };
    const response = await infer({ path: '/v2/models/floats/infer', body, headers });
    const length = Number(response.headers['inference-header-content-length']);
    expect(response.raw.subarray(length).equals(body)).toBe(true);
  });
});

describe('a bad request', () => {
  const notFound = 'Request for unknown model:';
  const rows: readonly (readonly [string, Asked, number, string, string | RegExp])[] = [
    ['unknown model', { path: '/v2/models/no/infer' }, 404, 'NOT_FOUND', `${notFound} 'no' is not found`],
    [
      'unknown version',
      { path: '/v2/models/simple/versions/7/infer' },
      404,
      'NOT_FOUND',
      `${notFound} 'simple' version 7 is not found`,
    ],
    [
      'no version',
      { path: '/v2/models/broken/infer' },
      404,
      'NOT_FOUND',
      `${notFound} 'broken' has no available versions`,
    ],
    [
      'version not ready',
      { path: '/v2/models/broken/versions/1/infer' },
      503,
      'UNAVAILABLE',
      `${notFound} 'broken' version 1 is not at ready state`,
    ],
    [
      'version past 64 bits',
      { path: '/v2/models/simple/versions/9223372036854775808/infer' },
      400,
      'INVALID_ARG',
      "failed to get model version from specified version string '9223372036854775808' (details: stol), " +
        'version should be an integral value > 0',
    ],
    [
      'decoupled model',
      { path: '/v2/models/stream/infer' },
      501,
      'UNSUPPORTED',
      "HTTP end point doesn't support models with decoupled transaction policy",
    ],
    ['compression', { headers: { 'content-encoding': 'br' } }, 501, 'UNSUPPORTED', 'Unsupported compression type'],
    [
      'header length past the body',
      { body: '{}', headers: { 'inference-header-content-length': '3' } },
      400,
      'INVALID_ARG; field=Inference-Header-Content-Length',
      'inference header size should be in range (0, 2), got: 3',
    ],
    [
      'raw body for two inputs',
      { body: 'x', headers: { 'inference-header-content-length': 'many' } },
      400,
      'INVALID_ARG; field=body',
      '[request id: <id_unknown>] Raw request must only have 1 input (found 1) to be deduced ' +
        "but got 2 inputs in 'simple' model configuration",
    ],
    [
      'larger than the limit',
      { body: ' '.repeat(1_000_001) },
      400,
      'INVALID_ARG; field=body',
      'request JSON size of 1000001 bytes exceeds the maximum allowed input size of 1000000 bytes. ' +
        'Use --http-max-input-size to increase the limit.',
    ],
    ['no body', { body: '' }, 400, 'INVALID_ARG', /^failed to parse the request JSON buffer: /],
    ['no JSON', { body: 'hello' }, 400, 'INVALID_ARG', /^failed to parse the request JSON buffer: /],
    ['no inputs', { body: {} }, 400, 'INVALID_ARG', /^Unable to parse 'inputs': /],
    ['brackets 100,000 deep', { body: '['.repeat(100_000) }, 400, 'INVALID_ARG', /./],
    ['data 100,000 deep', { path: '/v2/models/floats/infer', body: deep(100_000) }, 400, 'INVALID_ARG', /./],
    [
      'a shape product that overflows',
      { path: '/v2/models/floats/infer', body: floats([2 ** 31, 2 ** 31, 4], [1]) },
      400,
      'INVALID_ARG',
      /INPUT/,
    ],
    [
      'an output that the model has not',
      { body: { ...GOOD, outputs: [{ name: 'OUTPUT9' }] } },
      400,
      'INVALID_ARG; field=outputs[0].name',
      "unexpected inference output 'OUTPUT9' for model 'simple'",
    ],
    [
      'an input too many rows',
      { body: { inputs: ['INPUT0', 'INPUT1'].map((name) => ({ ...tensor(name, Array(18).fill(0)), shape: [9, 2] })) } },
      400,
      'INVALID_ARG; field=inputs[0].shape',
      "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'simple'",
    ],
    [
      'classes of an output that has none',
      {
        path: '/v2/models/text/infer',
        body: {
          inputs: [{ name: 'INPUT', datatype: 'BYTES', shape: [1], data: ['a'] }],
          outputs: [{ name: 'OUTPUT', parameters: { classification: 2 } }],
        },
      },
      400,
      'INVALID_ARG; field=outputs.parameters.classification',
      "class result not available for output due to unsupported type 'BYTES'",
    ],
    [
      'an answer that JSON cannot hold',
      { path: '/v2/models/halves/infer', body: halves(), headers: halvesHeader() },
      400,
      'INVALID_ARG',
      /FP16/,
    ],
  ];

  it.each(rows)('%s', async (_name, asked, status, header, message) => {
    const response = await infer(asked);
    expect([response.statusCode, response.headers['content-type']]).toEqual([status, 'application/json']);
    expect(Object.keys(response.json())).toEqual(['error']);
    const { error } = response.json();
    if (typeof message === 'string') expect(error).toBe(message);
    else expect(error).toMatch(message);
    expect(String(response.headers['nereid-error'])).toContain(header);
  });

  it('says which encodings it takes when it refuses one', async () => {
    const response = await infer({ body: GOOD, headers: { 'content-encoding': 'br' } });
    expect(response.headers['accept-encoding']).toBe('gzip, deflate');
  });

  it.each([
    ['INVALID_ARG', 400],
    ['NOT_FOUND', 404],
    ['UNAVAILABLE', 503],
    ['UNSUPPORTED', 501],
    ['ALREADY_EXISTS', 400],
    ['CANCELLED', 400],
    ['INTERNAL', 500],
    ['UNKNOWN', 400],
    ['POISONED', 500],
  ] as const)('that the model fails with %s is %i', async (code, status) => {
    const response = await infer({
      body: GOOD,
      answer: () => ({ ok: false, error: { code, message: 'odd "input"' } }),
    });
    expect([response.statusCode, response.json()]).toEqual([status, { error: 'odd "input"' }]);
    expect(response.headers['nereid-error']).toBe(code);
  });
});

function deep(levels: number): string {
  const data = '['.repeat(levels) + ']'.repeat(levels);
  return `{"inputs":[{"name":"INPUT","datatype":"FP32","shape":[1],"data":${data}}]}`;
}

const HALVES_JSON = JSON.stringify({
  inputs: [{ name: 'INPUT', datatype: 'FP16', shape: [1], parameters: { binary_data_size: 2 } }],
});

function halves(): Buffer {
  return Buffer.concat([Buffer.from(HALVES_JSON), Buffer.alloc(2)]);
}

function halvesHeader() {
  return { 'inference-header-content-length': String(HALVES_JSON.length) };
}
