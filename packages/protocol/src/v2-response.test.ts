import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import type { InferResponse } from './infer.ts';
import type { Tensor } from './tensor.ts';
import { type TensorValues, tensorFromValues, tensorValues } from './tensor-values.ts';
import { decodeInferRequest } from './v2-request.ts';
import { encodeInferResponse } from './v2-response.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1_000_000, bytes_max: 80_000_000 };

function response(outputs: Tensor[], more: Partial<InferResponse> = {}): InferResponse {
  return { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs, ...more };
}

function text(value: InferResponse): string {
  const encoded = encodeInferResponse(value, []);
  expect(encoded).toMatchObject({ headerLength: undefined, contentType: 'application/json' });
  expect(encoded.parts).toHaveLength(1);
  return Buffer.concat(encoded.parts).toString();
}

function dataText(datatype: Datatype, values: TensorValues & { length: number }): string {
  const all = text(response([tensorFromValues('Y', datatype, [values.length], values)]));
  return all.slice(all.indexOf('"data":') + 7, -3);
}

function failure(outputs: Tensor[]): NereidError {
  try {
    encodeInferResponse(response(outputs), []);
  } catch (error) {
    if (error instanceof NereidError) return error;
    throw error;
  }
  throw new Error('encoded');
}

describe('the JSON of a response', () => {
  it('has its members in the order of Triton', () => {
    const outputs = [tensorFromValues('Y', 'INT32', [1, 2], [1, -2]), tensorFromValues('Z', 'BYTES', [1], ['a"b'])];
    const parameters = { s: 'x"', b: true, i: 9223372036854775807n, d: 2 };
    expect(text(response(outputs, { id: 'ü"1', parameters }))).toBe(
      '{"id":"ü\\"1","model_name":"m","model_version":"1",' +
        '"parameters":{"s":"x\\"","b":true,"i":9223372036854775807,"d":2.0},' +
        '"outputs":[{"name":"Y","datatype":"INT32","shape":[1,2],"data":[1,-2]},' +
        '{"name":"Z","datatype":"BYTES","shape":[1],"data":["a\\"b"]}]}',
    );
    expect(text(response([]))).toBe('{"model_name":"m","model_version":"1","outputs":[]}');
  });

  it.each<[Datatype, TensorValues & { length: number }, string]>([
    ['BOOL', [true, false], '[true,false]'],
    ['BOOL', Uint8Array.of(0, 7), '[false,true]'],
    ['UINT8', [0, 255], '[0,255]'],
    ['INT8', [-128, 127], '[-128,127]'],
    ['UINT16', [65535], '[65535]'],
    ['INT16', [-32768, 9, 10, 99, 100], '[-32768,9,10,99,100]'],
    ['UINT32', [4294967295], '[4294967295]'],
    ['INT32', [-2147483648, 2147483647, 0], '[-2147483648,2147483647,0]'],
    ['UINT64', [0n, 9007199254740993n, 18446744073709551615n], '[0,9007199254740993,18446744073709551615]'],
    [
      'INT64',
      [-9223372036854775808n, -1n, 999999999999999n, 1000000000000000n],
      '[-9223372036854775808,-1,999999999999999,1000000000000000]',
    ],
    ['FP32', [0.1, 1, -2, 0, -0, 0.5], '[0.100000001490116119,1.0,-2.0,0.0,-0.0,0.5]'],
    ['FP32', [Number.NaN, Infinity, -Infinity], '[NaN,Infinity,-Infinity]'],
    [
      'FP64',
      [0.1, 1e15, 1e20, 1e21, -1.7e308, 5e-324],
      '[0.1,1000000000000000.0,100000000000000000000.0,1e+21,-1.7e+308,5e-324]',
    ],
    ['FP64', [], '[]'],
    ['BYTES', ['', 'é☃😀', '\b\t\n\f\r\u0001\u001f\\/"'], '["","é☃😀","\\b\\t\\n\\f\\r\\u0001\\u001F\\\\/\\""]'],
    ['BYTES', [], '[]'],
  ])('prints %s %o', (datatype, values, expected) => {
    expect(dataText(datatype, values)).toBe(expected);
  });

  it('copies bytes that are no UTF-8 as they are', () => {
    const { parts } = encodeInferResponse(
      response([tensorFromValues('Y', 'BYTES', [1], [Uint8Array.of(0xff, 0x41, 0xfe)])]),
      [],
    );
    expect(Buffer.concat(parts).includes(Buffer.from([0x22, 0xff, 0x41, 0xfe, 0x22]))).toBe(true);
  });

  it('prints long strings and long lists whole', () => {
    const long = '"\u0000x'.repeat(5_000);
    expect(JSON.parse(dataText('BYTES', [long, 'y', long]))).toEqual([long, 'y', long]);
    const many = Float64Array.from({ length: 5_000 }, (_, index) => -index / 3e200);
    expect(JSON.parse(dataText('FP64', many))).toEqual(Array.from(many));
  });

  it('reads misaligned tensors', () => {
    const bytes = new Uint8Array(9);
    bytes.set(new Uint8Array(Float64Array.of(1.5).buffer), 1);
    const data = bytes.subarray(1);
    expect(text(response([{ name: 'Y', datatype: 'FP64', shape: [1], data }]))).toContain('"data":[1.5]');
  });

  it.each(['FP16', 'BF16'] as const)('%s is refused', (datatype) => {
    expect(failure([{ name: 'Y', datatype, shape: [1], data: new Uint8Array(2) }])).toMatchObject({
      code: 'INVALID_ARG',
      message: `sending ${datatype} data via JSON is not supported. Please use the binary data format for output`,
    });
  });

  it.each<[Datatype, number, Uint8Array, string]>([
    [
      'FP32',
      2,
      new Uint8Array(4),
      "Failed to write 'data' field: output tensor shape does not match size of output for 'Y'",
    ],
    ['BYTES', 2, Uint8Array.of(0, 0, 0, 0), "output tensor shape does not match size of output for 'Y'"],
    ['BYTES', 1, Uint8Array.of(9, 0, 0, 0, 1), "output tensor shape does not match size of output for 'Y'"],
    ['BYTES', 1, Uint8Array.of(1, 0), "output tensor shape does not match size of output for 'Y'"],
    ['BYTES', 0, Uint8Array.of(0, 0, 0, 0), "output tensor shape does not match size of output for 'Y'"],
  ])('%s of shape [%i] with other data is a failure of the model', (datatype, dimension, data, message) => {
    expect(failure([{ name: 'Y', datatype, shape: [dimension], data }])).toMatchObject({ code: 'INTERNAL', message });
  });
});

describe('binary outputs', () => {
  const a = tensorFromValues('A', 'INT32', [2], [1, 2]);
  const b = tensorFromValues('B', 'FP16', [1], [1]);
  const empty = tensorFromValues('E', 'FP32', [0], []);

  it('follow the JSON in the order of the response', () => {
    const encoded = encodeInferResponse(response([a, b]), [
      { name: 'B', binary: true },
      { name: 'A', binary: true },
    ]);
    const [json, ...raw] = encoded.parts;
    expect(String(json)).toBe(
      '{"model_name":"m","model_version":"1","outputs":[' +
        '{"name":"A","datatype":"INT32","shape":[2],"parameters":{"binary_data_size":8}},' +
        '{"name":"B","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}}]}',
    );
    expect(encoded.headerLength).toBe(json?.byteLength);
    expect(encoded.contentType).toBe('application/octet-stream');
    expect(raw[0]).toBe(a.data);
    expect(raw[1]).toBe(b.data);
  });

  it('and JSON ones may be mixed; the first of two formats counts', () => {
    const encoded = encodeInferResponse(response([a, b]), [
      { name: 'B', binary: true },
      { name: 'B', binary: false },
    ]);
    expect(String(encoded.parts[0])).toContain('"shape":[2],"data":[1,2]}');
    expect(encoded.parts.slice(1)).toEqual([b.data]);
  });

  it('that are all empty make a JSON answer', () => {
    const encoded = encodeInferResponse(response([empty]), [{ name: 'E', binary: true }]);
    expect(encoded).toMatchObject({ headerLength: undefined, contentType: 'application/json' });
    expect(String(encoded.parts[0])).toContain('"shape":[0],"parameters":{"binary_data_size":0}}');
    expect(encoded.parts).toHaveLength(1);
  });
});

describe('numbers survive a round trip through JSON', () => {
  function roundTrip(tensor: Tensor): Tensor | undefined {
    const outputs = Buffer.concat(encodeInferResponse(response([tensor]), []).parts).toString();
    const body = Buffer.from(outputs.replace('"outputs"', '"inputs"'));
    return decodeInferRequest(body, { modelName: 'm', modelVersion: '', limits: LIMITS }).request.inputs[0];
  }
  const float = fc.integer().map((bits) => new Float32Array(Int32Array.of(bits).buffer)[0] as number);
  it.each<[Datatype, fc.Arbitrary<number | bigint | boolean>]>([
    ['FP32', float],
    ['FP32', fc.double({ min: -1, max: 1, noNaN: true }).map(Math.fround)],
    ['FP32', fc.integer({ min: -25, max: 26 }).map((power) => 2 ** power)],
    ['FP64', fc.double()],
    ['FP64', fc.integer().map((value) => value * 1e6)],
    ['INT64', fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n })],
    ['UINT64', fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })],
    ['INT32', fc.integer()],
    ['UINT32', fc.nat(2 ** 31 - 1).map((value) => value * 2 + 1)],
    ['INT8', fc.integer({ min: -128, max: 127 })],
    ['BOOL', fc.boolean()],
  ])('%s', (datatype, value) => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), (values) => {
        const tensor = tensorFromValues('Y', datatype, [values.length], values as TensorValues);
        const back = roundTrip(tensor);
        if (back === undefined) throw new Error('no tensor');
        expect(tensorValues(back)).toEqual(tensorValues(tensor));
      }),
      { numRuns: 500 },
    );
  });

  it('BYTES', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 5 }), (values) => {
        const tensor = tensorFromValues('Y', 'BYTES', [values.length], values);
        const encoded = Buffer.concat(encodeInferResponse(response([tensor]), []).parts);
        const body = Buffer.from(encoded.toString('latin1').replace('"outputs"', '"inputs"'), 'latin1');
        const { inputs } = decodeInferRequest(body, { modelName: 'm', modelVersion: '', limits: LIMITS }).request;
        expect(inputs[0]?.data).toEqual(tensor.data);
      }),
    );
  });
});

describe('FP32 as JSON', () => {
  it('reads back as the very double that it is', () => {
    const float = fc.oneof(
      fc.integer().map((bits) => new Float32Array(Int32Array.of(bits).buffer)[0] as number),
      fc.double({ min: 2 ** -20, max: 2 ** 25, noNaN: true }).map(Math.fround),
      fc.tuple(fc.integer({ min: -20, max: 25 }), fc.integer({ min: -2, max: 2 })).map(([power, steps]) => {
        const bits = new Int32Array(Float32Array.of(2 ** power).buffer);
        bits[0] = (bits[0] as number) + steps;
        return new Float32Array(bits.buffer)[0] as number;
      }),
    );
    fc.assert(
      fc.property(float, (value) => {
        expect(Number(dataText('FP32', [value]).slice(1, -1))).toBe(value);
      }),
      { numRuns: 20_000 },
    );
  });
});
