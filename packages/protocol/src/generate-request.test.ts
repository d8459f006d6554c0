import { describe, expect, it } from 'vitest';
import { bytesElements } from './bytes-elements.ts';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { decodeGenerateRequest, deduceShape, type GenerateInput } from './generate-request.ts';
import type { InferRequest } from './infer.ts';
import { tensorValues } from './tensor-values.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1_000, bytes_max: 100_000 };

const input = (name: string, datatype: Datatype, ...shape: number[]): GenerateInput => ({ name, datatype, shape });
const TEXT = input('text_input', 'BYTES', 1);
const VALUES = input('VALUES', 'INT32', -1);

function decode(
  body: string | object,
  inputs: readonly GenerateInput[] = [TEXT, VALUES],
  limits = LIMITS,
): InferRequest {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return decodeGenerateRequest(Buffer.from(text), { modelName: 'm', modelVersion: '3', inputs, limits });
}

function failure(body: string | object, inputs?: readonly GenerateInput[], limits = LIMITS): NereidError {
  try {
    decode(body, inputs, limits);
  } catch (error) {
    if (error instanceof NereidError) return error;
    throw error;
  }
  throw new Error('the request was accepted');
}

/** Names, shapes and elements of a request's inputs. */
function tensors(request: InferRequest): unknown {
  return request.inputs.map((tensor) => {
    const { name, shape, datatype, data } = tensor;
    if (datatype === 'BYTES')
      return [name, shape, bytesElements(data).map((element) => Buffer.from(element).toString())];
    return [name, shape, Array.from(tensorValues(tensor) as ArrayLike<unknown>)];
  });
}

describe('a generate body', () => {
  it('has inputs by name; all else are parameters', () => {
    const request = decode({ text_input: 'hé ☃', VALUES: [4, 5], colour: 'red', count: 7, ratio: 0.5, flag: false });
    expect(tensors(request)).toEqual([
      ['text_input', [1], ['hé ☃']],
      ['VALUES', [2], [4, 5]],
    ]);
    expect(request).toMatchObject({ modelName: 'm', modelVersion: '3', id: '', requestedOutputs: [] });
    expect(request.parameters).toEqual({ colour: 'red', count: 7n, ratio: 0.5, flag: false });
  });

  it('may put inputs and parameters in `parameters`, as if they stood beside it', () => {
    const request = decode({ parameters: { text_input: 'a', colour: 'red' }, VALUES: 1 });
    expect(tensors(request)).toEqual([
      ['text_input', [1], ['a']],
      ['VALUES', [1], [1]],
    ]);
    expect(request.parameters).toEqual({ colour: 'red' });
  });

  it('has an id, which is a parameter too', () => {
    const request = decode({ text_input: 'a', id: 'g-1' });
    expect([request.id, request.parameters]).toEqual(['g-1', { id: 'g-1' }]);
    expect(decode({ text_input: 'a', parameters: { id: 'g-1' } }).id).toBe('');
    const both = decode({ id: 'x' }, [input('id', 'BYTES', 1)]);
    expect([both.id, both.parameters, tensors(both)]).toEqual(['x', {}, [['id', [1], ['x']]]]);
  });

  it('says nothing of sequences, priorities and timeouts', () => {
    const request = decode({ sequence_id: 5, sequence_start: true, priority: 3, timeout: 9, binary_data_output: true });
    expect(request).toMatchObject({ correlationId: 0n, sequenceStart: false, priority: 0n, timeoutUs: 0n });
    expect(request.parameters).toEqual({
      sequence_id: 5n,
      sequence_start: true,
      priority: 3n,
      timeout: 9n,
      binary_data_output: true,
    });
  });

  it('keeps integers of 64 bits and doubles apart', () => {
    const { parameters } = decode('{"a":9007199254740993,"b":-9223372036854775808,"c":1.0,"d":18446744073709551615}');
    expect(parameters).toEqual({ a: 9007199254740993n, b: -9223372036854775808n, c: 1, d: 18446744073709552000 });
  });

  it('may have a parameter of any name', () => {
    const { parameters } = decode('{"__proto__":1,"":"x"}');
    expect(Object.entries(parameters)).toEqual([
      ['__proto__', 1n],
      ['', 'x'],
    ]);
  });

  it.each<[Datatype, string, unknown]>([
    ['BOOL', '[true,false]', [1, 0]],
    ['UINT8', '[255]', [255]],
    ['INT64', '[9007199254740993]', [9007199254740993n]],
    ['FP32', '[1,-2.5,NaN]', [1, -2.5, Number.NaN]],
    ['FP64', ' [ 1e300 , 2 ]', [1e300, 2]],
    ['BYTES', '["a","","\\u00e9"]', ['a', '', 'é']],
    ['BYTES', '"a\\"b"', ['a"b']],
    ['INT32', '-7', [-7]],
    ['INT32', '[]', []],
  ])('takes %s %s', (datatype, data, expected) => {
    const request = decode(`{"X":${data}}`, [input('X', datatype, -1)]);
    expect(tensors(request)).toEqual([['X', [(expected as unknown[]).length], expected]]);
  });
});

describe('the shape of so many elements', () => {
  it.each<[number[], number, readonly number[] | undefined]>([
    [[1], 1, [1]],
    [[1], 2, undefined],
    [[4], 4, [4]],
    [[4], 2, undefined],
    [[4], 8, undefined],
    [[-1], 3, [3]],
    [[-1], 0, [0]],
    [[], 1, []],
    [[], 2, undefined],
    [[2, 2], 4, [2, 2]],
    [[-1, 4], 4, [1, 4]],
    [[-1, 4], 12, [3, 4]],
    [[-1, 4], 6, undefined],
    [[-1, -1], 6, [1, 6]],
    [[-1, 2, -1], 6, [1, 2, 3]],
    [[-1, -1, 3], 6, [1, 2, 3]],
    [[-1, 16], 0, [0, 16]],
    [[4], 0, undefined],
  ])('%j from %i is %j', (shape, count, expected) => {
    expect(deduceShape(shape, count)).toEqual(expected);
  });

  it('that does not come out even is told with the input', () => {
    expect(failure({ VALUES: [1, 2] }, [input('VALUES', 'INT32', 4)])).toMatchObject({
      code: 'INVALID_ARG',
      message: "The schema can not convert input 'VALUES' to tensor with proper shape",
      field: 'VALUES',
    });
  });
});

describe('a generate body is refused', () => {
  const parse = 'failed to parse the request JSON buffer: ';
  it.each<[string, string, string]>([
    ['an empty body', '', `${parse}The document is empty. at 0`],
    ['no JSON', 'hello', `${parse}Invalid value. at 0`],
    ['more than one value', '{} {}', `${parse}The document root must not be followed by other values. at 3`],
    ['a body that is cut short', '{"VALUES":[1', `${parse}Missing a comma or ] after an array element. at 12`],
    ['no object', '[1]', 'attempt to get members for non-object'],
    [
      'text that is none',
      '{"text_input":5}',
      'Unable to parse JSON bytes array: attempt to access JSON non-string as string',
    ],
    [
      'a number that is none',
      '{"VALUES":["a"]}',
      "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    [
      'an object as a tensor',
      '{"VALUES":{"a":1}}',
      "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    [
      'an integer out of range',
      '{"VALUES":[2147483648]}',
      "Unable to parse 'data': 2147483648 is out of range for INT32",
    ],
    [
      'arrays in arrays',
      '{"VALUES":[[1,2],[3,4]]}',
      "Unable to parse 'data': Shape does not match true shape of 'data' field",
    ],
    ['a list', '{"p":[1]}', "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."],
    ['an object', '{"p":{}}', "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."],
    ['null', '{"p":null}', "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."],
    [
      'an object in parameters',
      '{"parameters":{"parameters":{}}}',
      "Converting keyword: 'parameters': parameter 'parameters' has invalid type. It should be either 'int', 'bool', or 'string'.",
    ],
    [
      'a tensor in parameters',
      '{"parameters":{"VALUES":["a"]}}',
      "Converting keyword: 'parameters': Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    [
      'the id before what else is wrong',
      '{"VALUES":["a"],"id":5}',
      "Unable to parse 'id': attempt to access JSON non-string as string",
    ],
    [
      'parameters that are none',
      '{"parameters":1}',
      "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
    ],
    ['an id that is no text', '{"id":5}', "Unable to parse 'id': attempt to access JSON non-string as string"],
    ['a name twice', '{"p":1,"p":2}', `${parse}Object member 'p' is given twice. at 11`],
  ])('%s', (_, body, message) => {
    const error = failure(body);
    expect(error.code).toBe('INVALID_ARG');
    expect(error.message.slice(0, message.length)).toBe(message);
  });

  it.each<Datatype>(['FP16', 'BF16'])('%s, which has no JSON form', (datatype) => {
    expect(failure({ X: [1] }, [input('X', datatype, -1)]).message).toBe(
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input X`,
    );
  });

  it('an input named parameters', () => {
    expect(failure({ parameters: {} }, [input('parameters', 'INT32', 1)])).toMatchObject({
      message: "Keyword 'parameters' for nested schema also given as input tensor name",
      field: 'parameters',
    });
  });

  it.each([{ nereid_step: 0 }, { parameters: { nereid_step: 0 } }])('%j, since it is no step', (body) => {
    expect(failure(body)).toMatchObject({ code: 'INVALID_ARG', field: 'nereid_step' });
    expect(decode({ nereid_step: [1] }, [input('nereid_step', 'INT32', -1)]).inputs).toHaveLength(1);
  });

  it.each([{ nereid_journal: 'on' }, { parameters: { nereid_journal: 'on' } }])(
    '%j, since it is no boolean',
    (body) => {
      expect(failure(body)).toMatchObject({ code: 'INVALID_ARG', field: 'nereid_journal' });
    },
  );

  it('a shape that does not come out even, before what is wrong with the elements', () => {
    expect(failure({ VALUES: ['a', 'b'] }, [input('VALUES', 'INT32', 4)]).message).toMatch(
      /^The schema can not convert/,
    );
  });

  it('what nests deeper than the limit', () => {
    expect(failure(`{"p":${'['.repeat(101)}${']'.repeat(101)}}`).message).toContain('nesting depth');
    expect(failure(`{"VALUES":${'['.repeat(100_000)}`).message).toContain('nesting depth');
  });

  it('more elements than a request may have, over all inputs', () => {
    const many = Array(600).fill(1);
    const inputs = [input('A', 'INT8', -1), input('B', 'INT8', -1)];
    expect(failure({ A: many, B: many }, inputs).message).toContain('the request has 1200 JSON elements');
    expect(decode({ A: many }, inputs).inputs).toHaveLength(1);
  });

  it('more bytes than an input may have', () => {
    expect(failure({ VALUES: [1, 2, 3] }, undefined, { ...LIMITS, bytes_max: 11 }).message).toContain('byte_size (12');
  });
});
