import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NereidError } from './error.ts';
import { REQUEST_DEFAULTS } from './infer.ts';
import { decodeJobData, encodeJobData } from './job-data.ts';
import { tensorFromValues, tensorValues } from './tensor-values.ts';
import type { DecodedRequest } from './v2-request.ts';
import { decodeInferRequest } from './v2-request.ts';

const LIMITS = { json_depth_max: 20, elements_max: 1_000_000, bytes_max: 1_000_000 };
const options = { modelName: 'm', limits: LIMITS };
const decode = (data: unknown) => decodeJobData(data, options);
/** As BullMQ stores and gives it. */
const stored = (data: unknown): unknown => JSON.parse(JSON.stringify(data));
const WRONG_INDEX = 'INVALID_ARG parameters.sequence_index: ';
const input = (datatype: string, shape: number[], data: unknown) => ({
  inputs: [{ name: 'A', datatype, shape, data }],
});
const values = (data: unknown) => {
  const [tensor] = decode(data).request.inputs;
  return tensor === undefined ? [] : Array.from<unknown>(tensorValues(tensor) as ArrayLike<unknown>);
};

function mistake(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    const { code, message, field } = error as NereidError;
    expect(error).toBeInstanceOf(NereidError);
    return `${code} ${field ?? ''}: ${message}`;
  }
  return 'none';
}

describe('job data become a request', () => {
  test('with everything said', () => {
    const decoded = decode({
      v: 1,
      id: 'r1',
      model_version: 3,
      parameters: { priority: 2, timeout: 5000, custom: 'x', n: { int64: '9007199254740993' }, d: { double: 3 } },
      inputs: [{ name: 'A', datatype: 'INT32', shape: [1, 2], data: [[1, 2]] }],
      outputs: [{ name: 'B', parameters: { binary_data: true } }, { name: 'C' }],
      respond: 'b64',
      deadline_ms: 700,
      result_ttl_s: 60,
      traceparent: '00-1-2-01',
    });
    expect(decoded).toMatchObject({
      request: {
        modelName: 'm',
        modelVersion: '3',
        id: 'r1',
        priority: 2n,
        timeoutUs: 5000n,
        parameters: { custom: 'x', n: 9007199254740993n, d: 3 },
        requestedOutputs: ['B', 'C'],
      },
      outputs: [
        { name: 'B', binary: true },
        { name: 'C', binary: false },
      ],
      respond: 'b64',
      deadlineMs: 700,
      resultTtlS: 60,
    });
  });

  test.each([
    ['numbers', input('FP32', [2], [1, 2.5]), [1, 2.5]],
    [
      'nested arrays',
      input(
        'INT8',
        [2, 2],
        [
          [1, -2],
          [3, 4],
        ],
      ),
      [1, -2, 3, 4],
    ],
    [
      'words for what JSON lacks',
      input('FP64', [4], ['NaN', 'Infinity', '-Infinity', 1]),
      [NaN, Infinity, -Infinity, 1],
    ],
    ['a negative zero', input('FP32', [1], [-0]), [-0]],
    ['64-bit integers as text', input('INT64', [2], ['-9223372036854775808', 7]), [-9223372036854775808n, 7n]],
    ['unsigned ones too', input('UINT64', [1, 1], [['18446744073709551615']]), [18446744073709551615n]],
    ['truth', input('BOOL', [2], [true, false]), [1, 0]],
    ['base64 of the binary form', { inputs: [{ name: 'A', datatype: 'INT16', shape: [2], b64: 'AQACAA==' }] }, [1, 2]],
    ['empty base64', { inputs: [{ name: 'A', datatype: 'INT16', shape: [0], b64: '' }] }, []],
  ])('%s', (_what, data, expected) => {
    expect(values(data)).toEqual(expected);
  });

  test('text elements', () => {
    const [tensor] = decode(input('BYTES', [2], ['NaN', 'ü'])).request.inputs;
    expect(tensor?.data).toEqual(tensorFromValues('A', 'BYTES', [2], ['NaN', 'ü']).data);
  });

  test('binary tensors in order, JSON ones between them', () => {
    const decoded = decode({
      inputs: [
        { name: 'A', datatype: 'INT8', shape: [1], b64: 'AQ==' },
        { name: 'B', datatype: 'INT8', shape: [1], data: [2] },
        { name: 'C', datatype: 'INT8', shape: [1], b64: 'Aw==' },
      ],
    });
    expect(decoded.request.inputs.map(({ data }) => [...data])).toEqual([[1], [2], [3]]);
  });
});

describe('mistakes have the texts of HTTP', () => {
  test.each([
    ['no object', 7],
    ['no inputs', {}],
    ['inputs of the wrong kind', { inputs: 'x' }],
    ['an input that is no object', { inputs: [7] }],
    ['no name', { inputs: [{ datatype: 'INT32', shape: [1], data: [1] }] }],
    ['an unknown datatype', input('INT31', [1], [1])],
    ['a negative dimension', input('INT32', [-1], [1])],
    ['too few elements', input('INT32', [2], [1])],
    ['an element of the wrong kind', input('INT32', [1], ['x'])],
    ['words among integers', input('INT64', [1], ['x'])],
    ['half-precision as JSON', input('FP16', [1], [1])],
    ['data that are no array', input('INT32', [1], 5)],
    ['no data', { inputs: [{ name: 'A', datatype: 'INT32', shape: [1] }] }],
    ['an id that is no text', { id: 5, inputs: [] }],
    ['parameters of the wrong kind', { parameters: [], inputs: [] }],
    ['a reserved parameter', { parameters: { triton_x: 1 }, inputs: [] }],
    ['a parameter that is an object', { parameters: { x: {} }, inputs: [] }],
    ['outputs of the wrong kind', { inputs: [], outputs: {} }],
    ['an output without a name', { inputs: [], outputs: [{}] }],
    [
      'shared memory',
      {
        inputs: [
          {
            name: 'A',
            datatype: 'INT32',
            shape: [1],
            parameters: { shared_memory_region: 'r', shared_memory_byte_size: 4 },
          },
        ],
      },
    ],
  ])('%s', (_what, data) => {
    const http = mistake(() =>
      decodeInferRequest(Buffer.from(JSON.stringify(data)), { modelName: 'm', modelVersion: '', limits: LIMITS }),
    );
    expect(http).not.toBe('none');
    expect(mistake(() => decode(data))).toBe(http);
  });
});

describe('mistakes that only jobs can make', () => {
  const blob = (named: unknown) => ({ inputs: [{ name: 'A', datatype: 'INT8', shape: [1], blob: named }] });
  const b64 = (text: unknown) => ({ inputs: [{ name: 'A', datatype: 'INT8', shape: [1], b64: text }] });
  test.each([
    ['a later version', { v: 2, inputs: [] }, 'INVALID_ARG v: job data of version 2'],
    ['a version of the model that is none', { model_version: 'x', inputs: [] }, 'INVALID_ARG model_version: '],
    ['no base64', b64('a*=='), "INVALID_ARG inputs[0].b64: Unable to parse 'b64'"],
    ['base64 without padding', b64('AQ'), 'INVALID_ARG inputs[0].b64: '],
    ['base64 that is no text', b64(7), 'INVALID_ARG inputs[0].b64: '],
    [
      'two forms',
      { inputs: [{ ...input('INT8', [1], [1]).inputs[0], b64: 'AQ==' }] },
      'INVALID_ARG inputs[0]: Input must set only one',
    ],
    [
      'bytes behind the data',
      { inputs: [{ name: 'A', datatype: 'INT8', shape: [1], parameters: { binary_data_size: 1 } }] },
      'INVALID_ARG inputs[0].parameters.binary_data_size: ',
    ],
    ['a blob without its reference', blob({}), "INVALID_ARG inputs[0].blob: 'blob' must be {ref, byte_size}"],
    ['a blob that is a path', blob('/etc/passwd'), 'INVALID_ARG inputs[0].blob: '],
    ['a blob without its size', blob({ ref: 'x' }), 'INVALID_ARG inputs[0].blob: '],
    ['a blob that is not there', blob({ ref: 'x', byte_size: 1 }), "NOT_FOUND inputs[0].blob.ref: blob 'x' is not"],
    ['an integer that has lost digits', input('INT64', [1], [2 ** 60]), 'INVALID_ARG inputs: '],
    ['a response by what is not known', { inputs: [], respond: 'xml' }, 'INVALID_ARG respond: '],
    ['a deadline of 0', { inputs: [], deadline_ms: 0 }, 'INVALID_ARG deadline_ms: '],
    ['a result that is kept for ever', { inputs: [], result_ttl_s: 2_592_001 }, 'INVALID_ARG result_ttl_s: '],
    ['a deadline of the wrong kind', { inputs: [], deadline_ms: '5' }, 'INVALID_ARG deadline_ms: '],
    ['a step of no sequence', { inputs: [], sequence_index: 0 }, `${WRONG_INDEX}sequence_index numbers a step`],
    [
      'a step of no sequence by the number of requests',
      { inputs: [], parameters: { nereid_step: 0 } },
      "INVALID_ARG parameters.nereid_step: 'nereid_step' numbers the steps of a sequence",
    ],
    [
      'a step with a text for its number',
      { inputs: [], parameters: { sequence_id: 5, sequence_index: 'x' } },
      `${WRONG_INDEX}sequence_index must be an integer from 0, got: x`,
    ],
    [
      'a step with two numbers',
      { inputs: [], parameters: { sequence_id: 5, sequence_index: 1 }, sequence_index: 1 },
      `${WRONG_INDEX}give sequence_index once`,
    ],
  ])('%s', (_what, data, expected) => {
    expect(mistake(() => decode(data)).slice(0, expected.length)).toBe(expected);
  });

  test('nesting without end is refused, not followed', () => {
    const deep = JSON.parse(`{"inputs":${'['.repeat(5000)}${']'.repeat(5000)}}`);
    expect(mistake(() => decode(deep))).toContain('nesting depth');
  });
});

test('a number that JSON.parse made infinite is told as too big', () => {
  const data = JSON.parse('{"inputs":[{"name":"A","datatype":"FP32","shape":[1],"data":[1e999]}]}');
  expect(mistake(() => decode(data))).toContain('Number too big to be stored in double.');
});

test('a request comes back from its job data as it was', () => {
  const parameter = fc.oneof(
    fc.string(),
    fc.boolean(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.double(),
  );
  const parameters = fc
    .dictionary(fc.string({ minLength: 1 }), parameter)
    .filter((all) =>
      Object.keys(all).every((name) => !/^(triton_|sequence_|priority$|timeout$|binary_data_output$)/.test(name)),
    );
  const decodedRequest = fc.record({
    request: fc.record({
      modelName: fc.constant('m'),
      modelVersion: fc.constantFrom('', '12'),
      id: fc.string(),
      correlationId: fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.string({ minLength: 1, maxLength: 128 })),
      sequenceStart: fc.boolean(),
      sequenceEnd: fc.boolean(),
      priority: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      timeoutUs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      journal: fc.option(fc.boolean(), { nil: undefined }),
      parameters,
      inputs: fc.array(
        fc
          .uint8Array({ maxLength: 9 })
          .map((data) => ({ name: 'A', datatype: 'UINT8' as const, shape: [data.length], data })),
        { maxLength: 3 },
      ),
      requestedOutputs: fc.constant([]),
    }),
    outputs: fc.constant([]),
    binaryDefault: fc.boolean(),
  });
  fc.assert(
    fc.property(decodedRequest, (before) => {
      const settings = { respond: 'b64', deadlineMs: 5, resultTtlS: 10, sequenceIndex: -1 } as const;
      const after = decode(stored(encodeJobData(before as DecodedRequest, settings)));
      expect(after.deadlineMs).toBe(5);
      expect(after.binaryDefault).toBe(before.binaryDefault);
      expect({ ...after.request, inputs: [] }).toEqual({ ...before.request, inputs: [] });
      expect(after.request.inputs.map(({ data }) => [...data])).toEqual(
        before.request.inputs.map(({ data }) => [...data]),
      );
    }),
  );
});

test('listed outputs keep their form', () => {
  const outputs = [
    { name: 'B', binary: true, classification: 0 },
    { name: 'C', binary: false, classification: 3 },
  ];
  const before = {
    request: { ...REQUEST_DEFAULTS, modelName: 'm', inputs: [], requestedOutputs: ['B', 'C'] },
    outputs,
    binaryDefault: false,
  };
  const after = decode(
    stored(encodeJobData(before, { respond: 'b64', deadlineMs: 0, resultTtlS: 1, sequenceIndex: -1 })),
  );
  expect(after.outputs).toEqual(outputs);
  expect(after.deadlineMs).toBe(0);
});

describe('a job that is a step of a sequence', () => {
  test.each([-1, 1.5, '1', null, 2 ** 53])('has no number %j', (index) => {
    const data = { inputs: [], parameters: { sequence_id: 5 }, sequence_index: index };
    const text = `${WRONG_INDEX}sequence_index must be an integer from 0, got: ${JSON.stringify(index)}`;
    expect(mistake(() => decode(data))).toBe(text);
  });

  const step = { sequence_id: 5, sequence_start: true, sequence_end: true };

  test.each<[string, object, number]>([
    ['has no number unless its producer gives one', { parameters: step }, -1],
    ['has the number of its data', { parameters: step, sequence_index: 7 }, 7],
    ['may have it among its parameters', { parameters: { ...step, sequence_index: 7 } }, 7],
  ])('%s', (_, data, index) => {
    const decoded = decode({ inputs: [], ...data });
    expect(decoded.request).toMatchObject({ correlationId: 5n, sequenceStart: true, sequenceEnd: true });
    expect(decoded.sequenceIndex).toBe(index);
    // The model is not told.
    expect(decoded.request.parameters).toEqual({});
  });

  test('may have a text for its id', () => {
    expect(decode({ inputs: [], parameters: { sequence_id: '5' } }).request.correlationId).toBe('5');
  });
});

test('a job is part of the trace that its data name; a malformed one is none', () => {
  const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const decoded = decode({ inputs: [], traceparent: trace });
  expect(decoded.request.trace).toBe(trace);
  const settings = { respond: 'b64', deadlineMs: 0, resultTtlS: 1, sequenceIndex: -1 } as const;
  expect(decode(stored(encodeJobData(decoded, settings))).request.trace).toBe(trace);
  for (const traceparent of ['mine', 7, null])
    expect(decode({ inputs: [], traceparent }).request.trace).toBeUndefined();
});
