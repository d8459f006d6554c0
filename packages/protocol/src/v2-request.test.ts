import { describe, expect, it } from 'vitest';
import { bytesElements } from './bytes-elements.ts';
import { NereidError } from './error.ts';
import { tensorValues } from './tensor-values.ts';
import { type DecodedRequest, decodeInferRequest } from './v2-request.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1_000_000, bytes_max: 8_000_000 };

function decode(body: string | Uint8Array, headerLength?: number, limits = LIMITS): DecodedRequest {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return decodeInferRequest(bytes, { modelName: 'm', modelVersion: '', headerLength, limits });
}

function failure(body: string | Uint8Array, headerLength?: number, limits = LIMITS): NereidError {
  try {
    decode(body, headerLength, limits);
  } catch (error) {
    if (error instanceof NereidError) return error;
    throw error;
  }
  throw new Error('the request was accepted');
}

/** A body of JSON and raw bytes, with its header length. */
function binary(json: object, ...raw: Uint8Array[]): [Uint8Array, number] {
  const header = Buffer.from(JSON.stringify(json));
  return [Buffer.concat([header, ...raw]), header.byteLength];
}

function input(datatype: string, shape: string, data: string): string {
  return `{"inputs":[{"name":"X","shape":${shape},"datatype":"${datatype}","data":${data}}]}`;
}

/** The same with `data` first, which the fast reader cannot take. */
function lateInput(datatype: string, shape: string, data: string): string {
  return `{"inputs":[{"data":${data},"name":"X","shape":${shape},"datatype":"${datatype}"}]}`;
}

function values(body: string): unknown {
  const [tensor] = decode(body).request.inputs;
  if (tensor === undefined) throw new Error('no input');
  if (tensor.datatype === 'BYTES') return bytesElements(tensor.data).map((element) => Buffer.from(element).toString());
  return Array.from(tensorValues(tensor) as unknown as ArrayLike<unknown>);
}

describe('a request', () => {
  it('becomes an InferRequest with defaults for what is not given', () => {
    const { request, outputs, binaryDefault } = decode(input('INT32', '[2]', '[1,-2]'));
    expect(request).toEqual({
      modelName: 'm',
      modelVersion: '',
      id: '',
      correlationId: 0n,
      sequenceStart: false,
      sequenceEnd: false,
      priority: 0n,
      timeoutUs: 0n,
      parameters: {},
      inputs: [{ name: 'X', datatype: 'INT32', shape: [2], data: new Uint8Array([1, 0, 0, 0, 254, 255, 255, 255]) }],
      requestedOutputs: [],
    });
    expect(outputs).toEqual([]);
    expect(binaryDefault).toBe(false);
  });

  it('keeps an id of any text', () => {
    const id = 'ü☃😀"\\/\b\f\n\r\t\u0001';
    expect(decode(JSON.stringify({ id, inputs: [] })).request.id).toBe(id);
    expect(decode('{"id":"\\u00fc\\uD83D\\uDE00\\/","inputs":[]}').request.id).toBe('ü😀/');
  });

  it('takes members in any order and ignores those it does not know', () => {
    const body = ' {"colour":{"a":[1,{"b":null}]},\n"outputs":[],"inputs":[] , "id" : "7"}\r\n\t';
    expect(decode(body).request.id).toBe('7');
  });

  it('is decoded from the middle of a larger buffer', () => {
    const whole = Buffer.from(`xxx${input('FP32', '[1]', '[1.5]')}`);
    expect(decode(whole.subarray(3)).request.inputs[0]?.data).toEqual(new Uint8Array([0, 0, 0xc0, 0x3f]));
  });
});

describe('request parameters', () => {
  function parameters(text: string): DecodedRequest {
    return decode(`{"inputs":[],"parameters":${text}}`);
  }

  it('fill the fields that the protocol defines', () => {
    const { request, binaryDefault } = parameters(
      '{"sequence_id":18446744073709551615,"sequence_start":true,"sequence_end":true,"priority":3,' +
        '"timeout":5000000,"binary_data_output":true}',
    );
    expect(request.correlationId).toBe(18446744073709551615n);
    expect([request.sequenceStart, request.sequenceEnd]).toEqual([true, true]);
    expect([request.priority, request.timeoutUs]).toEqual([3n, 5000000n]);
    expect(binaryDefault).toBe(true);
    expect(request.parameters).toEqual({});
  });

  it.each([
    ['text', '"a"', 'a'],
    ['a boolean', 'false', false],
    ['an integer', '7', 7n],
    ['a negative integer', '-7', -7n],
    ['the smallest integer', '-9223372036854775808', -9223372036854775808n],
    ['the greatest integer', '9223372036854775807', 9223372036854775807n],
    ['an integer past those as a double', '9223372036854775808', 2 ** 63],
    ['an integer beyond 64 bits', '-9223372036854775809', -(2 ** 63)],
    ['an integral double', '1.0', 1],
    ['a double', '0.5', 0.5],
    ['an exponent', '1e2', 100],
    ['NaN', 'NaN', Number.NaN],
    ['-Inf', '-Inf', Number.NEGATIVE_INFINITY],
  ])('keep %s', (_, text, value) => {
    expect(parameters(`{"p":${text}}`).request.parameters.p).toBe(value);
  });

  it('number steps, and are none of the model', () => {
    const { request } = parameters('{"sequence_id":5,"nereid_step":9007199254740991}');
    expect([request.sequenceStep, request.parameters]).toEqual([Number.MAX_SAFE_INTEGER, {}]);
    expect(parameters('{"sequence_id":5,"nereid_step":0}').request.sequenceStep).toBe(0);
    expect('sequenceStep' in parameters('{"sequence_id":5}').request).toBe(false);
  });

  it('say whether to record, which is none of the model', () => {
    expect(parameters('{"nereid_journal":true}').request).toMatchObject({ journal: true, parameters: {} });
    expect(parameters('{"nereid_journal":false}').request.journal).toBe(false);
    expect('journal' in parameters('{}').request).toBe(false);
  });

  it('keep the kinds of sequence id apart', () => {
    expect(parameters('{"sequence_id":"5"}').request.correlationId).toBe('5');
    expect(parameters('{"sequence_id":5}').request.correlationId).toBe(5n);
    expect(parameters('{"sequence_id":""}').request.correlationId).toBe('');
  });

  it('may be called __proto__ or constructor', () => {
    const { parameters: kept } = parameters('{"__proto__":"x","constructor":1}').request;
    expect(Object.entries(kept)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 1n],
    ]);
    expect(Object.getPrototypeOf(kept)).toBe(Object.prototype);
  });

  it.each([
    ['5', 'failed to get request params.: attempt to get members for non-object', 'parameters'],
    ['null', 'failed to get request params.: attempt to get members for non-object', 'parameters'],
    [
      '{"sequence_id":-1}',
      "Unable to parse 'sequence_id': attempt to access JSON non-string as string",
      'parameters.sequence_id',
    ],
    [
      '{"sequence_id":1.0}',
      "Unable to parse 'sequence_id': attempt to access JSON non-string as string",
      'parameters.sequence_id',
    ],
    [
      '{"sequence_start":1}',
      "Unable to parse 'sequence_start': attempt to access JSON non-boolean as boolean",
      'parameters.sequence_start',
    ],
    [
      '{"sequence_end":"true"}',
      "Unable to parse 'sequence_end': attempt to access JSON non-boolean as boolean",
      'parameters.sequence_end',
    ],
    [
      '{"nereid_journal":1}',
      "Unable to parse 'nereid_journal': attempt to access JSON non-boolean as boolean",
      'parameters.nereid_journal',
    ],
    [
      '{"nereid_step":-1}',
      "Unable to parse 'nereid_step': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'parameters.nereid_step',
    ],
    [
      '{"nereid_step":9007199254740992}',
      "invalid value for 'nereid_step', expected a whole number from 0 to 9007199254740991",
      'parameters.nereid_step',
    ],
    [
      '{"priority":-1}',
      "Unable to parse 'priority': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'parameters.priority',
    ],
    [
      '{"timeout":"5"}',
      "Unable to parse 'timeout': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'parameters.timeout',
    ],
    [
      '{"timeout":18446744073709551616}',
      "Unable to parse 'timeout': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'parameters.timeout',
    ],
    [
      '{"binary_data_output":"yes"}',
      "Unable to parse 'binary_data_output': attempt to access JSON non-boolean as boolean",
      'parameters.binary_data_output',
    ],
    [
      '{"stop":[1,2]}',
      "parameter 'stop' has invalid type. It should be either 'int', 'bool', or 'string'.",
      'parameters.stop',
    ],
    [
      '{"stop":null}',
      "parameter 'stop' has invalid type. It should be either 'int', 'bool', or 'string'.",
      'parameters.stop',
    ],
    [
      '{"stop":{"a":1}}',
      "parameter 'stop' has invalid type. It should be either 'int', 'bool', or 'string'.",
      'parameters.stop',
    ],
    [
      '{"triton_x":1}',
      "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
      'parameters.triton_x',
    ],
  ])('%s is refused', (text, message, field) => {
    expect(failure(`{"inputs":[],"parameters":${text}}`)).toMatchObject({ code: 'INVALID_ARG', message, field });
  });
});

describe('JSON data', () => {
  it.each([
    ['BOOL', '[3]', '[true,false,true]', [1, 0, 1]],
    ['UINT8', '[3]', '[0,1,255]', [0, 1, 255]],
    ['UINT16', '[2]', '[0,65535]', [0, 65535]],
    ['UINT32', '[2]', '[0,4294967295]', [0, 4294967295]],
    ['UINT64', '[3]', '[0,9007199254740993,18446744073709551615]', [0n, 9007199254740993n, 18446744073709551615n]],
    ['INT8', '[3]', '[-128,-0,127]', [-128, 0, 127]],
    ['INT16', '[2]', '[-32768,32767]', [-32768, 32767]],
    ['INT32', '[2]', '[-2147483648,2147483647]', [-2147483648, 2147483647]],
    [
      'INT64',
      '[4]',
      '[-9223372036854775808,-1,9007199254740993,9223372036854775807]',
      [-9223372036854775808n, -1n, 9007199254740993n, 9223372036854775807n],
    ],
    ['FP32', '[5]', '[1e2,-2.5E-1,0.0,3,1e39]', [100, -0.25, 0, 3, Number.POSITIVE_INFINITY]],
    ['FP32', '[5]', '[NaN,Infinity,-Infinity,Inf,-Inf]', [Number.NaN, Infinity, -Infinity, Infinity, -Infinity]],
    ['FP32', '[1]', '[18446744073709551616]', [2 ** 64]],
    ['FP64', '[3]', '[0.1,-1.7e308,1e-400]', [0.1, -1.7e308, 0]],
    ['FP32', '[2,2]', '[[1,2],[3,4]]', [1, 2, 3, 4]],
    ['FP32', '[3]', ' [ [ 1 , 2.5 ] ,\n[[3]] ] ', [1, 2.5, 3]],
    ['INT32', '[2]', '[1,[],[2]]', [1, 2]],
    ['FP32', '[0,3]', '[]', []],
    ['FP32', '[2,0]', '[[],[]]', []],
    ['INT32', '[]', '[5]', [5]],
    ['BYTES', '[3]', '["one","","héllo"]', ['one', '', 'héllo']],
    ['BYTES', '[1,2]', '[["a\\"b\\\\c\\n\\t\\u0001","☃ \\ud83d\\ude00"]]', ['a"b\\c\n\t\u0001', '☃ 😀']],
    ['BYTES', '[1]', '["a\\u0000b"]', ['a\0b']],
    ['BYTES', '[0]', '[]', []],
  ])('%s %s %s', (datatype, shape, data, expected) => {
    expect(values(input(datatype, shape, data))).toEqual(expected);
    expect(values(lateInput(datatype, shape, data))).toEqual(expected);
  });

  it('of BYTES that are no UTF-8 keep their bytes', () => {
    const body = Buffer.concat([
      Buffer.from('{"inputs":[{"name":"X","shape":[1],"datatype":"BYTES","data":["'),
      Buffer.from([0xff, 0x41]),
      Buffer.from('"]}]}'),
    ]);
    expect(decode(body).request.inputs[0]?.data).toEqual(new Uint8Array([2, 0, 0, 0, 0xff, 0x41]));
  });

  const COUNT = "Unable to parse 'data': Shape does not match true shape of 'data' field";
  const SIGNED = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer";
  const UNSIGNED = "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer";
  const DOUBLE = "Unable to parse 'data': attempt to access JSON non-number as double";
  const BOOLEAN = "Unable to parse 'data': attempt to access JSON non-boolean as boolean";
  const TEXT = 'Unable to parse JSON bytes array: attempt to access JSON non-string as string';
  const range = (value: string, datatype: string, from: string, to: string) =>
    `Unable to parse 'data': ${value} is out of range for ${datatype} (${from} to ${to}) in input 'X'`;
  it.each([
    ['UINT8', '[1]', '[256]', range('256', 'UINT8', '0', '255')],
    ['UINT8', '[1]', '[-1]', range('-1', 'UINT8', '0', '255')],
    ['INT8', '[1]', '[300]', range('300', 'INT8', '-128', '127')],
    ['INT8', '[1]', '[-129]', range('-129', 'INT8', '-128', '127')],
    ['UINT16', '[1]', '[65536]', range('65536', 'UINT16', '0', '65535')],
    ['INT16', '[1]', '[32768]', range('32768', 'INT16', '-32768', '32767')],
    ['INT32', '[1]', '[2147483648]', range('2147483648', 'INT32', '-2147483648', '2147483647')],
    ['UINT32', '[1]', '[4294967296]', range('4294967296', 'UINT32', '0', '4294967295')],
    [
      'INT64',
      '[1]',
      '[9223372036854775808]',
      range('9223372036854775808', 'INT64', '-9223372036854775808', '9223372036854775807'),
    ],
    ['INT64', '[1]', '[-9223372036854775809]', SIGNED],
    ['UINT64', '[1]', '[18446744073709551616]', UNSIGNED],
    ['UINT64', '[1]', '[-1]', range('-1', 'UINT64', '0', '18446744073709551615')],
    ['INT32', '[1]', '[1.0]', SIGNED],
    ['INT32', '[1]', '[1.5]', SIGNED],
    ['INT32', '[1]', '[1e2]', SIGNED],
    ['INT64', '[1]', '[1.0]', SIGNED],
    ['INT32', '[1]', '["1"]', SIGNED],
    ['INT32', '[1]', '[true]', SIGNED],
    ['INT32', '[1]', '[NaN]', SIGNED],
    ['BOOL', '[1]', '[2]', BOOLEAN],
    ['BOOL', '[1]', '[1]', BOOLEAN],
    ['FP32', '[1]', '[null]', DOUBLE],
    ['FP32', '[1]', '["NaN"]', DOUBLE],
    ['FP32', '[1]', '[{}]', DOUBLE],
    ['FP64', '[1]', '[false]', DOUBLE],
    ['BYTES', '[1]', '[12]', TEXT],
    ['BYTES', '[1]', '[null]', TEXT],
    [
      'BYTES',
      '[1]',
      '[{"b64":"AAAA"}]',
      `${TEXT}; objects with base64 are not part of the protocol, use the binary form`,
    ],
    ['FP32', '[2]', '[1,2,3]', COUNT],
    ['FP32', '[2]', '[1,    2,    3]', COUNT],
    ['FP32', '[2]', '[1]', COUNT],
    ['FP32', '[3]', '[[1,2],[]]', COUNT],
    ['FP32', '[1]', '[[[]]]', COUNT],
    ['FP32', '[0]', '[1]', COUNT],
    ['INT64', '[1]', '[1,2]', COUNT],
    ['BOOL', '[2]', '[true,false,true]', COUNT],
    ['BYTES', '[3]', '["a"]', COUNT],
    ['BYTES', '[1]', '["a","b"]', COUNT],
    ['FP32', '[1]', '1.5', "Unable to parse 'data': attempt to access JSON non-array as array"],
    ['FP32', '[1]', 'null', "Unable to parse 'data': attempt to access JSON non-array as array"],
    [
      'FP16',
      '[1]',
      '[1.0]',
      'receiving FP16 data via JSON is not supported. Please use the binary data format for input X',
    ],
    [
      'BF16',
      '[1]',
      '[1.0]',
      'receiving BF16 data via JSON is not supported. Please use the binary data format for input X',
    ],
  ])('%s %s %s is refused', (datatype, shape, data, message) => {
    const expected = { code: 'INVALID_ARG', message, field: 'inputs[0].data' };
    expect(failure(input(datatype, shape, data))).toMatchObject(expected);
    expect(failure(lateInput(datatype, shape, data))).toMatchObject(expected);
  });

  it('of a number beyond doubles is a syntax error', () => {
    const body = input('FP64', '[1]', '[1e400]');
    expect(failure(body).message).toBe(
      `failed to parse the request JSON buffer: Number too big to be stored in double. at ${body.indexOf('1e400')}`,
    );
  });
});

describe('an input', () => {
  const FIELDS =
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
    "'shared_memory_region' in 'parameters'. But";
  it.each([
    ['5', `${FIELDS} no field is set`, 'inputs[0]'],
    ['{"name":"X","shape":[1],"datatype":"INT32"}', `${FIELDS} no field is set`, 'inputs[0]'],
    ['{"data":[1],"parameters":{"binary_data_size":4}}', `${FIELDS} set 'data' 'binary_data_size'`, 'inputs[0]'],
    [
      '{"parameters":{"binary_data_size":4,"shared_memory_region":"r"}}',
      `${FIELDS} set 'binary_data_size' 'shared_memory_region'`,
      'inputs[0]',
    ],
    [
      '{"shape":[1],"datatype":"INT32","data":[1]}',
      "Unable to parse 'name': attempt to access non-existing object member 'name'",
      'inputs[0].name',
    ],
    [
      '{"name":5,"shape":[1],"datatype":"INT32","data":[1]}',
      "Unable to parse 'name': attempt to access JSON non-string as string",
      'inputs[0].name',
    ],
    [
      '{"name":"X","shape":[1],"data":[1]}',
      "Unable to parse 'datatype': attempt to access non-existing object member 'datatype'",
      'inputs[0].datatype',
    ],
    [
      '{"name":"X","shape":[1],"datatype":null,"data":[1]}',
      "Unable to parse 'datatype': attempt to access JSON non-string as string",
      'inputs[0].datatype',
    ],
    [
      '{"name":"X","datatype":"INT32","data":[1]}',
      "Unable to parse 'shape': attempt to access non-existing object member 'shape'",
      'inputs[0].shape',
    ],
    [
      '{"name":"X","shape":"-1","datatype":"BYTES","data":[{}]}',
      "Unable to parse 'shape': attempt to access JSON non-array as array",
      'inputs[0].shape',
    ],
    [
      '{"name":"X","shape":[-1],"datatype":"INT32","data":[1]}',
      "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'inputs[0].shape',
    ],
    [
      '{"name":"X","shape":["1"],"datatype":"INT32","data":[1]}',
      "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'inputs[0].shape',
    ],
    [
      '{"name":"X","shape":[1.5],"datatype":"INT32","data":[1]}',
      "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'inputs[0].shape',
    ],
    [
      '{"name":"X","shape":[1.0],"datatype":"INT32","data":[1]}',
      "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'inputs[0].shape',
    ],
    [
      '{"name":"X","shape":[[1]],"datatype":"INT32","data":[1]}',
      "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'inputs[0].shape',
    ],
    ['{"name":"X","shape":[1],"datatype":"fp32","data":[1]}', 'invalid datatype for input X', 'inputs[0].datatype'],
    [
      '{"name":"X","shape":[1],"datatype":"TYPE_FP32","data":[1]}',
      'invalid datatype for input X',
      'inputs[0].datatype',
    ],
    ['{"name":"X","shape":[1],"datatype":"toString","data":[1]}', 'invalid datatype for input X', 'inputs[0].datatype'],
  ])('%s is refused', (text, message, field) => {
    expect(failure(`{"inputs":[${text}]}`)).toMatchObject({ code: 'INVALID_ARG', message, field });
  });

  it.each(['[1,4611686018427387905]', '[3037000500,3037000500]', '[9007199254740993,0]'])(
    'whose shape %s overflows is refused before memory is taken',
    (shape) => {
      expect(failure(input('FP32', shape, '[1]'))).toMatchObject({
        code: 'INVALID_ARG',
        message:
          `invalid shape for input 'X': shape ${shape} causes total element count to exceed ` +
          'maximum size of 9007199254740991',
        field: 'inputs[0].shape',
      });
    },
  );

  it('of more elements than the text could hold is refused before memory is taken', () => {
    const limits = { ...LIMITS, elements_max: 1e12, bytes_max: 1e13 };
    expect(failure(input('FP64', '[999999999999]', '[1]'), undefined, limits).message).toMatch(
      /^Unable to parse 'data'/,
    );
  });

  it('past the limits is refused', () => {
    const elements = { ...LIMITS, elements_max: 3 };
    expect(failure(input('FP32', '[4]', '[1,2,3,4]'), undefined, elements).message).toMatch(
      /^invalid shape for input 'X': with shape \[4\] the request has 4 JSON elements, more than 3/,
    );
    const two = '{"name":"X","shape":[2],"datatype":"UINT8","data":[1,2]}';
    expect(failure(`{"inputs":[${two},${two}]}`, undefined, elements).message).toMatch(/has 4 JSON elements/);
    const long = input('FP64', '[40]', `[${'1,'.repeat(39)}1]`);
    expect(failure(long, undefined, { ...LIMITS, bytes_max: 200 }).message).toBe(
      "JSON input 'X' has a byte_size (320 bytes) that exceeds the maximum allowed value of 200 bytes. " +
        'Use --http-max-input-size to increase the limit.',
    );
    expect(failure(long, undefined, { ...LIMITS, bytes_max: 100 }).message).toBe(
      `request JSON size of ${long.length} bytes exceeds the maximum allowed input size of 100 bytes. ` +
        'Use --http-max-input-size to increase the limit.',
    );
  });

  it('in shared memory is not found', () => {
    const place = (parameters: string) =>
      `{"inputs":[{"name":"X","shape":[1],"datatype":"INT32","parameters":${parameters}}]}`;
    expect(failure(place('{"shared_memory_region":"r","shared_memory_byte_size":4}'))).toMatchObject({
      code: 'NOT_FOUND',
      message: "Unable to find shared memory region: 'r'",
    });
    expect(failure(place('{"shared_memory_region":"r","shared_memory_offset":-1}'))).toMatchObject({
      code: 'INVALID_ARG',
      field: 'inputs[0].parameters.shared_memory_offset',
    });
    expect(failure(place('{"shared_memory_region":5}')).message).toMatch(/^Unable to parse 'shared_memory_region': /);
  });

  it('may be given twice as far as the text goes', () => {
    const one = '{"name":"X","shape":[1],"datatype":"UINT8","data":[1]}';
    expect(decode(`{"inputs":[${one},${one}]}`).request.inputs).toHaveLength(2);
  });
});

describe('binary inputs', () => {
  const two = {
    inputs: [
      { name: 'A', shape: [1, 2], datatype: 'INT32', parameters: { binary_data_size: 8 } },
      { name: 'J', shape: [1], datatype: 'UINT8', data: [9] },
      { name: 'B', shape: [4], datatype: 'FP16', parameters: { binary_data_size: 8 } },
    ],
  };
  const a = Uint8Array.from([1, 0, 0, 0, 2, 0, 0, 0]);
  const b = Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]);

  it('are views on the body in the order of the inputs', () => {
    const [body, length] = binary(two, a, b);
    const { inputs } = decode(body, length).request;
    expect(inputs.map(({ name, data }) => [name, data])).toEqual([
      ['A', a],
      ['J', Uint8Array.of(9)],
      ['B', b],
    ]);
    expect(inputs[0]?.data.buffer).toBe(body.buffer);
    expect(inputs[0]?.data.byteOffset).toBe(body.byteOffset + length);
  });

  it('may be empty', () => {
    const [body, length] = binary({
      inputs: [{ name: 'X', shape: [0], datatype: 'BYTES', parameters: { binary_data_size: 0 } }],
    });
    expect(decode(body, length).request.inputs[0]?.data.byteLength).toBe(0);
  });

  it('that end early are refused with what is missing', () => {
    const [body, length] = binary(two, a, b.subarray(4));
    expect(failure(body, length)).toMatchObject({
      code: 'INVALID_ARG',
      message: "unexpected size for input 'B', expecting 4 additional bytes for model 'm'",
      field: 'inputs[2].parameters.binary_data_size',
    });
  });

  it('that leave bytes over are refused', () => {
    const [body, length] = binary(two, a, b, Uint8Array.of(0));
    expect(failure(body, length).message).toBe("unexpected additional input data for model 'm'");
  });

  it.each([
    ['-64', 'non-unsigned-integer as unsigned-integer'],
    ['"64"', 'non-unsigned-integer as unsigned-integer'],
    ['8.0', 'non-unsigned-integer as unsigned-integer'],
    ['null', 'non-unsigned-integer as unsigned-integer'],
  ])('with a size of %s are refused', (size, words) => {
    const body = `{"inputs":[{"name":"X","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":${size}}}]}`;
    expect(failure(body)).toMatchObject({
      message: `Unable to parse 'binary_data_size': attempt to access JSON ${words}`,
      field: 'inputs[0].parameters.binary_data_size',
    });
  });

  it('with a size of 64 bits are refused exactly', () => {
    const body =
      '{"inputs":[{"name":"X","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":18446744073709551615}}]}';
    expect(failure(body).message).toBe(
      "unexpected size for input 'X', expecting 18446744073709551615 additional bytes for model 'm'",
    );
  });

  it('without a header length are a syntax error or missing', () => {
    const [body] = binary(two, a, b);
    expect(failure(body).message).toMatch(/^failed to parse the request JSON buffer: /);
    const [alone] = binary(two);
    expect(failure(alone).message).toBe("unexpected size for input 'A', expecting 8 additional bytes for model 'm'");
  });

  it('with a header length out of range are refused', () => {
    const [body, length] = binary(two, a, b);
    expect(failure(body, 100_000)).toMatchObject({
      code: 'INVALID_ARG',
      message: `inference header size should be in range (0, ${body.byteLength}), got: 100000`,
    });
    expect(failure(body, -1).message).toMatch(/got: -1$/);
    expect(failure(body, 20).message).toMatch(/^failed to parse the request JSON buffer: .* at 20$/);
    expect(failure(body, length - 1).message).toMatch(/^failed to parse the request JSON buffer: /);
    expect(failure(body, 0).code).toBe('INTERNAL');
  });
});

describe('outputs', () => {
  function outputs(text: string): DecodedRequest {
    return decode(`{"inputs":[],"outputs":${text}}`);
  }

  it('come in the order asked, repeated ones too', () => {
    const decoded = outputs(
      '[{"name":"B","parameters":{"binary_data":true}},{"name":"A","parameters":{"classification":3}},{"name":"B"}]',
    );
    expect(decoded.outputs).toEqual([
      { name: 'B', binary: true, classification: 0 },
      { name: 'A', binary: false, classification: 3 },
      { name: 'B', binary: false, classification: 0 },
    ]);
    expect(decoded.request.requestedOutputs).toEqual(['B', 'A']);
  });

  it('listed without a form are JSON whatever binary_data_output says', () => {
    const decoded = decode('{"inputs":[],"outputs":[{"name":"A"}],"parameters":{"binary_data_output":true}}');
    expect(decoded.outputs).toEqual([{ name: 'A', binary: false, classification: 0 }]);
    expect(decoded.binaryDefault).toBe(true);
  });

  it.each([
    ['{}', "Unable to parse 'outputs': attempt to access JSON non-array as array", 'outputs'],
    ['[{}]', "Unable to parse 'name': attempt to access non-existing object member 'name'", 'outputs[0].name'],
    ['[7]', "Unable to parse 'name': attempt to access non-existing object member 'name'", 'outputs[0].name'],
    [
      '[{"name":"A"},{"name":1}]',
      "Unable to parse 'name': attempt to access JSON non-string as string",
      'outputs[1].name',
    ],
    [
      '[{"name":"A","parameters":{"binary_data":"yes"}}]',
      "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
      'outputs[0].parameters.binary_data',
    ],
    [
      '[{"name":"A","parameters":{"classification":-1}}]',
      "Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
      'outputs[0].parameters.classification',
    ],
    [
      '[{"name":"A","parameters":{"shared_memory_region":"r","classification":1}}]',
      "Output can't set both 'shared_memory_region' and 'classification'",
      'outputs[0].parameters',
    ],
    [
      '[{"name":"A","parameters":{"shared_memory_region":"r","binary_data":true}}]',
      "Output can't set both 'shared_memory_region' and 'binary_data'",
      'outputs[0].parameters',
    ],
  ])('%s is refused', (text, message, field) => {
    expect(failure(`{"inputs":[],"outputs":${text}}`)).toMatchObject({ code: 'INVALID_ARG', message, field });
  });

  it('in shared memory are not found', () => {
    const body = '{"inputs":[],"outputs":[{"name":"A","parameters":{"shared_memory_region":"r"}}]}';
    expect(failure(body)).toMatchObject({ code: 'NOT_FOUND', message: "Unable to find shared memory region: 'r'" });
  });
});

describe('mistakes are reported in the order of Triton', () => {
  const outputs = '"outputs":5';
  const inputs = '"inputs":5';
  const parameters = '"parameters":5';
  const id = '"id":5';
  it.each([
    [`{${outputs},${inputs},${parameters},${id}}x`, /^failed to parse the request JSON buffer: /],
    [`{${outputs},${inputs},${parameters},${id}}`, /^Unable to parse 'id': /],
    [`{${outputs},${inputs},${parameters}}`, /^failed to get request params/],
    [`{${outputs},${inputs}}`, /^Unable to parse 'inputs': /],
    [`{${outputs},"inputs":[]}x`, /^failed to parse/],
    [`{${outputs},"inputs":[]}`, /^Unable to parse 'outputs': /],
  ])('%s', (body, message) => {
    expect(failure(body).message).toMatch(message);
  });
});
