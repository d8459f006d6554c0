import { describe, expect, test } from 'vitest';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import type { InferResponse } from './infer.ts';
import { decodeJobResult, encodeJobResult, failedReason, parseFailedReason } from './job-result.ts';
import { type TensorValues, tensorFromValues } from './tensor-values.ts';

const options = { modelName: 'm', limits: { json_depth_max: 20, elements_max: 1_000_000, bytes_max: 1_000_000 } };

function response(datatype: Datatype, values: TensorValues & { readonly length: number }): InferResponse {
  const output = tensorFromValues('B', datatype, [values.length], values);
  return { modelName: 'm', modelVersion: '1', id: 'r', parameters: {}, outputs: [output] };
}

const output = (result: unknown) => (result as { outputs: { data?: unknown; b64?: string }[] }).outputs[0];

describe('a return value has JSON values', () => {
  test.each<[string, Datatype, TensorValues & { readonly length: number }, unknown]>([
    ['integers', 'INT32', [1, -2], [1, -2]],
    ['truth', 'BOOL', [true, false], [true, false]],
    ['floats', 'FP32', [0.5, 2], [0.5, 2]],
    ['what JSON lacks as words', 'FP64', [NaN, Infinity, -Infinity], ['NaN', 'Infinity', '-Infinity']],
    ['long integers as text where they need it', 'INT64', [5n, 2n ** 60n], [5, '1152921504606846976']],
    ['text', 'BYTES', ['a', 'ü'], ['a', 'ü']],
  ])('%s', (_what, datatype, values, expected) => {
    const result = encodeJobResult(response(datatype, values), 'auto');
    expect(result).toEqual({
      id: 'r',
      model_name: 'm',
      model_version: '1',
      outputs: [{ name: 'B', datatype, shape: [values.length], data: expected }],
    });
    const back = decodeJobResult(JSON.parse(JSON.stringify(result)), options);
    expect(back.outputs[0]?.data).toEqual(response(datatype, values).outputs[0]?.data);
  });
});

describe('a return value has base64', () => {
  test.each<[string, InferResponse, 'auto' | 'json' | 'b64', 'data' | 'b64']>([
    ['where it is asked for', response('INT8', [1]), 'b64', 'b64'],
    ['past 16 KiB of JSON', response('INT32', new Int32Array(8_200)), 'auto', 'b64'],
    ['past 16 KiB by its digits', response('FP64', new Float64Array(1_500).fill(Math.PI)), 'auto', 'b64'],
    ['not under it', response('INT32', new Int32Array(8_000)), 'auto', 'data'],
    ['not where JSON is asked for', response('INT32', new Int32Array(8_200)), 'json', 'data'],
    ['for half-precision', response('FP16', [1]), 'auto', 'b64'],
    ['for bytes that are no text', response('BYTES', [Uint8Array.of(0xff)]), 'auto', 'b64'],
  ])('%s', (_what, given, respond, form) => {
    const result = encodeJobResult(given, respond);
    expect(Object.keys(output(result) ?? {})).toContain(form);
    const back = decodeJobResult(JSON.parse(JSON.stringify(result)), options);
    expect(Buffer.from(back.outputs[0]?.data ?? []).equals(given.outputs[0]?.data ?? Buffer.of(1))).toBe(true);
    expect(back).toMatchObject({ modelName: 'm', modelVersion: '1', id: 'r' });
  });
});

test('half-precision as JSON is refused, naming the way out', () => {
  expect(() => encodeJobResult(response('FP16', [1]), 'json')).toThrow("respond 'b64'");
});

test('parameters are plain', () => {
  const parameters = { a: 'x', b: 5n, c: 2n ** 60n, d: 0.5, e: Number.NaN, f: true };
  const result = encodeJobResult({ ...response('INT8', [1]), parameters }, 'auto');
  expect(result.parameters).toEqual({ a: 'x', b: 5, c: '1152921504606846976', d: 0.5, e: 'NaN', f: true });
  expect(decodeJobResult(result, options).parameters).toMatchObject({ a: 'x', b: 5n, d: 0.5 });
});

test.each([[null], ['x'], [{}], [{ outputs: [{ name: 'B' }] }]])(
  'a return value of another worker is told: %j',
  (value) => {
    expect(() => decodeJobResult(value, options)).toThrow(NereidError);
  },
);

test.each([
  ['INVALID_ARG: wrong: very', { code: 'INVALID_ARG', message: 'wrong: very' }],
  ['job stalled more than allowable limit', { code: 'INTERNAL', message: 'job stalled more than allowable limit' }],
  ['toString: x', { code: 'INTERNAL', message: 'toString: x' }],
])('failedReason %j', (text, error) => {
  expect(parseFailedReason(text)).toEqual(error);
  if (error.code !== 'INTERNAL') expect(failedReason(error as never)).toBe(text);
});
