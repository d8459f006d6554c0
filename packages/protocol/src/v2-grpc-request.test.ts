import { describe, expect, it } from 'vitest';
import { NereidError } from './error.ts';
import { type Field, message, packed } from './sample-grpc-message.ts';
import { readGrpcInferDocument } from './v2-grpc-document.ts';
import { decodeGrpcInferRequest } from './v2-grpc-request.ts';

const LIMITS = { elements_max: 100, bytes_max: 200 };

const decode = (...fields: readonly Field[]) =>
  decodeGrpcInferRequest(readGrpcInferDocument(message([1, 'm'], ...fields)), { modelVersion: '', limits: LIMITS });

function refusal(...fields: readonly Field[]): { code: string; message: string; field: string | undefined } {
  try {
    decode(...fields);
  } catch (thrown) {
    if (thrown instanceof NereidError) return { code: thrown.code, message: thrown.message, field: thrown.field };
    throw thrown;
  }
  throw new Error('it was accepted');
}

const refusedText = (...fields: readonly Field[]) => refusal(...fields).message;

const input = (datatype: string, shape: readonly number[], ...rest: readonly Field[]): Field => [
  5,
  [[1, 'X'], [2, datatype], [3, packed(...shape)], ...rest],
];
/** Typed contents: field number of InferTensorContents and its packed values. */
const contents = (...fields: readonly Field[]): Field => [5, fields];
const raw = (...bytes: number[]): Field => [7, Uint8Array.from(bytes)];
/** An entry of a map of parameters: member of InferParameter and its value. */
const parameter = (map: number, key: string, ...value: readonly Field[]): Field => [
  map,
  [
    [1, key],
    [2, value],
  ],
];

describe('a request', () => {
  it('with raw tensors, which stay views', () => {
    const bytes = message([1, 'm'], [2, '1'], [3, 'call-1'], input('INT32', [1, 2]), raw(1, 0, 0, 0, 2, 0, 0, 0));
    const { request, outputs, emptyFinalResponse } = decodeGrpcInferRequest(readGrpcInferDocument(bytes), {
      modelVersion: '1',
      limits: LIMITS,
    });
    expect(request).toEqual({
      modelName: 'm',
      modelVersion: '1',
      id: 'call-1',
      correlationId: 0n,
      sequenceStart: false,
      sequenceEnd: false,
      priority: 0n,
      timeoutUs: 0n,
      parameters: {},
      inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 2], data: Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0) }],
      requestedOutputs: [],
    });
    expect(request.inputs[0]?.data.buffer).toBe(bytes.buffer);
    expect([outputs, emptyFinalResponse]).toEqual([[], false]);
  });

  it('that is empty has no model and no inputs', () => {
    expect(readGrpcInferDocument(new Uint8Array(0))).toMatchObject({ modelName: '', modelVersion: '', inputs: [] });
  });

  it('of fields in any order, the last of a repeated one', () => {
    const { request } = decode(raw(7), [3, 'a'], input('UINT8', [1]), [3, 'b'], [1, 'n']);
    expect(request).toMatchObject({ modelName: 'n', id: 'b', inputs: [{ data: Uint8Array.of(7) }] });
  });

  it('with unknown fields, and fields of another wire type than theirs', () => {
    const { request } = decode([99, 'x'], [1, 5], [88, 7n], input('UINT8', [1], [77, 'y']), raw(7));
    expect(request).toMatchObject({ modelName: 'm', inputs: [{ shape: [1] }] });
  });

  it('whose dimensions are packed, single and negative', () => {
    const { request } = decode(
      [
        5,
        [
          [1, 'X'],
          [2, 'UINT8'],
          [3, 2],
          [3, packed(3, -1)],
          [3, 4n],
        ],
      ],
      raw(7),
    );
    expect(request.inputs[0]?.shape).toEqual([2, 3, -1, 4]);
  });

  it('with more raw entries than inputs: the others are not looked at', () => {
    expect(decode(input('UINT8', [1]), raw(1), raw(2)).request.inputs).toHaveLength(1);
  });

  it('of an unknown datatype, for the check against the config to refuse', () => {
    expect(decode(input('INT33', [1]), raw(1)).request.inputs[0]?.datatype).toBe('<invalid>');
  });

  it('that lists an output twice wants it once', () => {
    const { request, outputs } = decode([6, [[1, 'Y']]], [6, [[1, 'Z']]], [6, [[1, 'Y']]]);
    expect(request.requestedOutputs).toEqual(['Y', 'Z']);
    expect(outputs.map(({ name, binary }) => [name, binary])).toEqual([
      ['Y', true],
      ['Z', true],
      ['Y', true],
    ]);
  });

  it('with outputs as classes', () => {
    const { outputs } = decode([6, [[1, 'Y'], parameter(2, 'classification', [2, 3])]]);
    expect(outputs).toEqual([{ name: 'Y', binary: true, classification: 3 }]);
  });
});

describe('typed contents become raw bytes', () => {
  const hex = (...fields: readonly Field[]) =>
    Buffer.from(decode(...fields).request.inputs[0]?.data ?? []).toString('hex');
  const fixed = (...values: readonly number[]) => Buffer.from(Float32Array.from(values).buffer);

  it.each<[string, Field, string]>([
    ['BOOL', [1, packed(1, 0, 300)], '010001'],
    ['INT8', [2, packed(-128, 0, 127)], '80007f'],
    ['INT16', [2, packed(-2, 1)], 'feff0100'],
    ['INT32', [2, packed(-1, 1)], 'ffffffff01000000'],
    ['INT64', [3, packed(-1n, 9_007_199_254_740_993n)], 'ffffffffffffffff0100000000002000'],
    ['UINT8', [4, packed(300, 255)], '2cff'],
    ['UINT16', [4, packed(65_535)], 'ffff'],
    ['UINT32', [4, packed(4_294_967_295)], 'ffffffff'],
    ['UINT64', [5, packed(18_446_744_073_709_551_615n)], 'ffffffffffffffff'],
    ['FP32', [6, fixed(0.5, -2.25)], '0000003f000010c0'],
    ['FP64', [7, Buffer.from(Float64Array.of(0.5).buffer)], '000000000000e03f'],
    ['BYTES', [8, 'ab'], '020000006162'],
  ])('%s', (datatype, field, expected) => {
    expect(hex(input(datatype, [1], contents(field)))).toBe(expected);
  });

  it('in order over packed, single and merged pieces', () => {
    expect(hex(input('INT32', [4], contents([2, 1], [2, packed(2, 3)]), contents([2, 4])))).toBe(
      '01000000020000000300000004000000',
    );
    expect(hex(input('BYTES', [2], contents([8, 'a']), contents([8, ''])))).toBe('010000006100000000');
  });

  it('none where there are none', () => {
    expect(hex(input('FP32', [0], contents()))).toBe('');
    expect(hex(input('FP32', [0], contents([6, ''])))).toBe('');
  });
});

describe('what Triton refuses', () => {
  it.each<[string, readonly Field[], string, string]>([
    [
      'contents and raw tensors',
      [input('INT32', [1], contents([2, packed(1)])), raw(1, 0, 0, 0)],
      "contents field must not be specified when using raw_input_contents for 'X' for model 'm'",
      'inputs[0].contents',
    ],
    [
      'neither',
      [input('INT32', [1])],
      "unable to find data for input tensor 'X' for model 'm' in request.",
      'inputs[0].contents',
    ],
    [
      'fewer raw tensors than inputs',
      [input('INT32', [1]), input('INT32', [1]), raw(1, 0, 0, 0)],
      "unable to find data for input tensor 'X' for model 'm' in request.",
      'inputs[1].contents',
    ],
    [
      'contents of another datatype',
      [input('FP32', [1], contents([2, packed(1)]))],
      "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'INT32', expected datatype 'FP32'",
      'inputs[0].contents',
    ],
    [
      'contents of half floats',
      [input('FP16', [1], contents([6, new Uint8Array(4)]))],
      "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'FP32', expected datatype 'FP16'",
      'inputs[0].contents',
    ],
    [
      'contents of no datatype',
      [input('INT33', [1], contents([2, packed(1)]))],
      "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'INT32', expected datatype '<invalid>'",
      'inputs[0].contents',
    ],
    [
      'contents in two fields',
      [input('INT32', [1], contents([2, packed(1)], [6, new Uint8Array(4)]))],
      "unexpected explicit tensor data for input tensor 'X' for model 'm', binary data was already supplied.",
      'inputs[0].contents',
    ],
    [
      'an unsigned sequence id',
      [parameter(4, 'sequence_id', [5, 1])],
      "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
      'parameters.sequence_id',
    ],
    [
      'a start that is no boolean',
      [parameter(4, 'sequence_start', [2, 1])],
      "invalid value type for 'sequence_start' parameter, expected bool_param.",
      'parameters.sequence_start',
    ],
    [
      'a wish to be recorded in words',
      [parameter(4, 'nereid_journal', [3, 'yes'])],
      "invalid value type for 'nereid_journal' parameter, expected bool_param.",
      'parameters.nereid_journal',
    ],
    [
      'a step in words',
      [parameter(4, 'nereid_step', [3, '1'])],
      "invalid value type for 'nereid_step' parameter, expected int64_param or uint64_param.",
      'parameters.nereid_step',
    ],
    [
      'a step below 0',
      [parameter(4, 'nereid_step', [2, -1])],
      "invalid value for 'nereid_step', expected a whole number from 0 to 9007199254740991",
      'parameters.nereid_step',
    ],
    [
      'a priority in words',
      [parameter(4, 'priority', [3, 'high'])],
      "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
      'parameters.priority',
    ],
    [
      'a negative priority',
      [parameter(4, 'priority', [2, -1])],
      "invalid value for 'priority', expected value >= 0.",
      'parameters.priority',
    ],
    [
      'an unsigned timeout',
      [parameter(4, 'timeout', [5, 1])],
      "invalid value type for 'timeout' parameter, expected int64_param.",
      'parameters.timeout',
    ],
    [
      'an unsigned parameter',
      [parameter(4, 'k', [5, 1])],
      "invalid value type for 'k' parameter, expected int64_param, bool_param, or string_param.",
      'parameters.k',
    ],
    [
      'a parameter without value',
      [parameter(4, 'k')],
      "invalid value type for 'k' parameter, expected int64_param, bool_param, or string_param.",
      'parameters.k',
    ],
    [
      'a reserved key',
      [parameter(4, 'triton_x', [3, 'a'])],
      "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
      'parameters.triton_x',
    ],
    [
      'classes in words',
      [[6, [[1, 'Y'], parameter(2, 'classification', [3, '2'])]]],
      "invalid value type for 'classification' parameter, expected int64_param",
      'outputs[0].parameters.classification',
    ],
    [
      'no classes',
      [[6, [[1, 'Y'], parameter(2, 'classification', [2, 0])]]],
      "invalid value for 'classification' parameter, expected >= 0",
      'outputs[0].parameters.classification',
    ],
    [
      'an offset without a region',
      [input('UINT8', [1], parameter(4, 'shared_memory_offset', [2, 1]))],
      "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'X'",
      'inputs[0].parameters',
    ],
    [
      'a region without a size',
      [input('UINT8', [1], parameter(4, 'shared_memory_region', [3, 'r']))],
      "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'X'",
      'inputs[0].parameters',
    ],
    [
      'a region that is no text',
      [input('UINT8', [1], parameter(4, 'shared_memory_region', [2, 1]))],
      "invalid value type for 'shared_memory_region' parameter for tensor 'X', expected string_param.",
      'inputs[0].parameters.shared_memory_region',
    ],
    [
      'an output in shared memory as classes',
      [
        [
          6,
          [
            [1, 'Y'],
            parameter(2, 'classification', [2, 1]),
            parameter(2, 'shared_memory_region', [3, 'r']),
            parameter(2, 'shared_memory_byte_size', [2, 4]),
          ],
        ],
      ],
      "output can't set both 'shared_memory_region' and 'classification'",
      'outputs[0].parameters',
    ],
    [
      'more elements than can be counted',
      [input('UINT8', [2 ** 30, 2 ** 30]), raw(1)],
      "invalid shape for input 'X': shape [1073741824,1073741824] causes total element count to exceed maximum size of 9007199254740991",
      'inputs[0].shape',
    ],
  ])('%s', (_rule, fields, text, field) => {
    expect(refusal(...fields)).toEqual({ code: 'INVALID_ARG', message: text, field });
  });

  it('an unknown region, of an input and of an output', () => {
    const place = (map: number): readonly Field[] => [
      parameter(map, 'shared_memory_region', [3, 'r']),
      parameter(map, 'shared_memory_byte_size', [2, 4]),
    ];
    const error = { code: 'NOT_FOUND', message: "Unable to find shared memory region: 'r'" };
    expect(refusal(input('UINT8', [4], ...place(4)))).toMatchObject(error);
    expect(refusal([6, [[1, 'Y'], ...place(2)]])).toMatchObject(error);
  });
});

describe('parameters', () => {
  it('of the protocol', () => {
    const { request, emptyFinalResponse } = decode(
      parameter(4, 'sequence_id', [2, -1]),
      parameter(4, 'sequence_start', [1, 1]),
      parameter(4, 'sequence_end', [1, 0]),
      parameter(4, 'nereid_step', [2, 4]),
      parameter(4, 'nereid_journal', [1, 1]),
      parameter(4, 'priority', [5, 3]),
      parameter(4, 'timeout', [2, 5]),
      parameter(4, 'triton_enable_empty_final_response', [1, 1]),
    );
    expect(request).toMatchObject({
      correlationId: 18_446_744_073_709_551_615n,
      sequenceStart: true,
      sequenceEnd: false,
      sequenceStep: 4,
      journal: true,
      priority: 3n,
      timeoutUs: 5n,
      parameters: {},
    });
    expect(emptyFinalResponse).toBe(true);
    expect(decode(parameter(4, 'sequence_id', [3, 'a'])).request.correlationId).toBe('a');
    expect(decode(parameter(4, 'nereid_step', [5, 0])).request.sequenceStep).toBe(0);
  });

  it('for the model, of every kind, the last of a key and the last member of a value', () => {
    const { request } = decode(
      parameter(4, 'text', [3, 'red']),
      parameter(4, 'flag', [1, 1]),
      parameter(4, 'count', [2, -7]),
      parameter(4, 'count', [2, 8]),
      [
        4,
        [
          [1, 'merged'],
          [2, [[1, 1]]],
          [2, [[3, 'last']]],
        ],
      ],
      parameter(4, 'binary_data_output', [1, 1]),
      parameter(4, '__proto__', [3, 'x']),
    );
    expect(Object.entries(request.parameters)).toEqual([
      ['text', 'red'],
      ['flag', true],
      ['count', 8n],
      ['merged', 'last'],
      ['binary_data_output', true],
      ['__proto__', 'x'],
    ]);
  });
});

describe('limits', () => {
  const many = (count: number, field: Field): readonly Field[] => Array<Field>(count).fill(field);

  it.each<[string, readonly Field[], string]>([
    ['inputs', many(4_097, [5, '']), "'inputs' has more than 4096 entries"],
    ['outputs', many(4_097, [6, '']), "'outputs' has more than 4096 entries"],
    ['raw tensors', many(4_097, [7, '']), "'raw_input_contents' has more than 4096 entries"],
    ['pieces of contents', [input('INT32', [1], ...many(4_097, [5, '']))], "'contents' has more than 4096 entries"],
    ['dimensions', [input('INT32', Array(1_025).fill(1))], 'a shape has more than 1024 dimensions'],
    [
      'parameters',
      Array.from({ length: 4_097 }, (_, index) => parameter(4, `k${index}`, [1, 1])),
      "'parameters' has more than 4096 entries",
    ],
    [
      'elements in contents',
      [input('INT8', [101], contents([2, new Uint8Array(101)]))],
      "with input 'X' the request has 101 explicit elements, more than 100. Please use raw_input_contents.",
    ],
    [
      'bytes in contents',
      [input('INT64', [26], contents([3, new Uint8Array(26)]))],
      "input 'X' has a byte_size (208 bytes) that exceeds the maximum allowed value of 200 bytes. Please use raw_input_contents.",
    ],
  ])('of %s', (_what, fields, text) => {
    expect(refusedText(...fields)).toBe(text);
  });

  it('elements count over all inputs', () => {
    const half = input('INT8', [60], contents([2, new Uint8Array(60)]));
    expect(refusedText(half, half)).toContain('has 120 explicit elements');
  });
});

it.each<[string, Uint8Array]>([
  ['ends within a field', message([1, 'm']).subarray(0, 2)],
  ['has an input that goes beyond it', Buffer.concat([message([5, 'abc']).subarray(0, 1), Uint8Array.of(50, 1)])],
  ['has a text that is no UTF-8', message([3, Uint8Array.of(0xff)])],
  ['is none', Uint8Array.of(0x07)],
])('a message that %s is refused as INVALID_ARG', (_what, bytes) => {
  expect(() => readGrpcInferDocument(bytes)).toThrow(/^the request message cannot be parsed: .* at byte \d+$/);
});

it('contents that end within a value are refused', () => {
  expect(refusedText(input('FP32', [1], contents([6, new Uint8Array(3)])))).toMatch(/cannot be parsed: it ends within/);
  expect(refusedText(input('INT32', [1], contents([2, Uint8Array.of(0x80)])))).toMatch(/cannot be parsed: it ends/);
});
