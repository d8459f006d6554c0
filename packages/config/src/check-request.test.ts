import { type InferRequest, REQUEST_DEFAULTS, type Tensor } from '@nereid/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkRequest } from './check-request.ts';
import type { InputSignature, ModelSignature } from './model-signature.ts';

const NOTE =
  'NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each ' +
  'input shape. If you want to specify the full shape including the batch dim in your input dims config, try ' +
  'setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.';
const UNKNOWN = '[request id: <id_unknown>] ';

function input(name: string, datatype: InputSignature['datatype'], dims: number[], more = {}): InputSignature {
  return { name, datatype, dims, reshape: null, optional: false, ragged: false, ...more };
}
function model(name: string, maxBatchSize: number, inputs: InputSignature[], outputs = ['OUTPUT']): ModelSignature {
  const output = (one: string) => ({ name: one, datatype: 'INT32' as const, dims: [1], reshape: null });
  return {
    name,
    maxBatchSize,
    inputs,
    outputs: outputs.map(output),
    batchInputs: [],
    batchOutputs: [],
    decoupled: false,
  };
}
const simple = model(
  'simple',
  8,
  [input('INPUT0', 'INT32', [16]), input('INPUT1', 'INT32', [16])],
  ['OUTPUT0', 'OUTPUT1'],
);
const addSub = model('add_sub', 0, [input('INPUT0', 'FP32', [4]), input('INPUT1', 'FP32', [4])]);
const optional = model('optional_inputs', 0, [
  input('INPUT0', 'INT32', [4]),
  input('INPUT1', 'INT32', [4], { optional: true }),
]);
const bytes = model('identity_bytes', 0, [input('INPUT', 'BYTES', [-1])]);
const batchedBytes = model('identity_batched_bytes', 4, [input('INPUT', 'BYTES', [-1])]);
const variable = model('identity_fp32', 0, [input('INPUT', 'FP32', [-1])]);
const batched = model('identity_batched_fp32', 4, [input('INPUT', 'FP32', [-1, 2])]);

function tensor(name: string, datatype: Tensor['datatype'], shape: number[], byteLength: number): Tensor {
  return { name, datatype, shape, data: new Uint8Array(byteLength) };
}
function strings(shape: number[], ...data: (number | string)[]): Tensor {
  const parts = data.map((part) => (typeof part === 'number' ? lengthPrefix(part) : Buffer.from(part)));
  return { name: 'INPUT', datatype: 'BYTES', shape, data: Buffer.concat(parts) };
}
function lengthPrefix(length: number): Buffer {
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32LE(length);
  return prefix;
}
const i0 = (shape = [1, 16], byteLength = 64) => tensor('INPUT0', 'INT32', shape, byteLength);
const i1 = (shape = [1, 16], byteLength = 64) => tensor('INPUT1', 'INT32', shape, byteLength);
const fp32 = (shape: number[], byteLength: number) => tensor('INPUT', 'FP32', shape, byteLength);

function request(inputs: Tensor[], more: Partial<InferRequest> = {}): InferRequest {
  return {
    ...REQUEST_DEFAULTS,
    modelName: 'm',
    inputs,
    ...more,
  };
}

describe('good requests', () => {
  test.each<[string, ModelSignature, Tensor[]]>([
    ['a batch of one', simple, [i0(), i1()]],
    ['the largest batch', simple, [i0([8, 16], 512), i1([8, 16], 512)]],
    ["inputs not in the config's order", simple, [i1(), i0()]],
    ['no batching', addSub, [tensor('INPUT0', 'FP32', [4], 16), tensor('INPUT1', 'FP32', [4], 16)]],
    ['an optional input left out', optional, [tensor('INPUT0', 'INT32', [4], 16)]],
    ['an optional input given', optional, [tensor('INPUT1', 'INT32', [4], 16), tensor('INPUT0', 'INT32', [4], 16)]],
    ['variable dimensions', batched, [fp32([3, 5, 2], 120)]],
    ['an empty tensor', variable, [fp32([0], 0)]],
    ['an empty row', batched, [fp32([2, 0, 2], 0)]],
    ['no strings', bytes, [strings([0])]],
    ['strings', bytes, [strings([3], 1, 'a', 0, 3, 'abc')]],
    ['strings in rows', batchedBytes, [strings([2, 1], 1, 'a', 2, 'bc')]],
    [
      'an empty product of a huge shape',
      model('m', 0, [input('INPUT', 'FP32', [-1, -1, -1])]),
      [fp32([2 ** 52, 2 ** 52, 0], 0)],
    ],
  ])('%s', (_name, signature, inputs) => {
    expect(checkRequest(signature, request(inputs))).toBeNull();
  });

  test('known outputs, also twice', () => {
    expect(
      checkRequest(simple, request([i0(), i1()], { requestedOutputs: ['OUTPUT1', 'OUTPUT0', 'OUTPUT1'] })),
    ).toBeNull();
  });
});

describe('texts that Triton was recorded with', () => {
  const wrongBatch = `input 'INPUT1' batch size does not match other inputs for 'simple'`;
  test.each<[string, ModelSignature, Tensor[], string, string]>([
    [
      'missing input',
      simple,
      [i0()],
      `${UNKNOWN}expected 2 inputs but got 1 inputs for model 'simple'. Got input(s) ['INPUT0'], but missing required input(s) ['INPUT1']. Please provide all required input(s).`,
      'inputs',
    ],
    [
      'two missing inputs',
      simple,
      [],
      `${UNKNOWN}expected 2 inputs but got 0 inputs for model 'simple'. Got input(s) [], but missing required input(s) ['INPUT0','INPUT1']. Please provide all required input(s).`,
      'inputs',
    ],
    [
      'unknown input',
      simple,
      [i0(), tensor('INPUT9', 'INT32', [1, 16], 64)],
      `unexpected inference input 'INPUT9' for model 'simple'`,
      'inputs[1].name',
    ],
    [
      'unknown input of a model with optional ones',
      optional,
      [tensor('INPUT0', 'INT32', [4], 16), tensor('INPUT2', 'INT32', [4], 16)],
      `unexpected inference input 'INPUT2' for model 'optional_inputs'`,
      'inputs[1].name',
    ],
    ['input twice', simple, [i0(), i0(), i1()], `${UNKNOWN}input 'INPUT0' already exists in request`, 'inputs[1].name'],
    ['wrong rank', simple, [i0([16]), i1()], UNKNOWN + wrongBatch, 'inputs[1].shape'],
    ['unequal batches', simple, [i0([2, 16], 128), i1()], UNKNOWN + wrongBatch, 'inputs[1].shape'],
    [
      'higher rank',
      simple,
      [i0([1, 4, 4]), i1()],
      `${UNKNOWN}unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got [1,4,4]. ${NOTE}`,
      'inputs[0].shape',
    ],
    [
      'a batch dimension for a model without batching',
      addSub,
      [tensor('INPUT0', 'FP32', [1, 4], 16), tensor('INPUT1', 'FP32', [4], 16)],
      `${UNKNOWN}unexpected shape for input 'INPUT0' for model 'add_sub'. Expected [4], got [1,4]. `,
      'inputs[0].shape',
    ],
    [
      'wrong fixed dimension behind a variable one',
      batched,
      [fp32([2, 2, 3], 48)],
      `${UNKNOWN}unexpected shape for input 'INPUT' for model 'identity_batched_fp32'. Expected [-1,-1,2], got [2,2,3]. ${NOTE}`,
      'inputs[0].shape',
    ],
    [
      'batch of zero',
      simple,
      [i0([0, 16], 0), i1([0, 16], 0)],
      `${UNKNOWN}input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 64, got 0`,
      'inputs[0].data',
    ],
    [
      'no data',
      simple,
      [i0([1, 16], 0), i1()],
      `${UNKNOWN}input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 64, got 0`,
      'inputs[0].data',
    ],
    [
      'batch too large',
      simple,
      [i0([9, 16], 576), i1([9, 16], 576)],
      `${UNKNOWN}inference request batch-size must be <= 8 for 'simple'`,
      'inputs[0].shape',
    ],
    [
      'too few strings',
      bytes,
      [strings([3], 1, 'a', 1, 'b')],
      `${UNKNOWN}expected 3 string elements for inference input 'INPUT' for model 'identity_bytes', got 2`,
      'inputs[0].data',
    ],
    [
      'too many strings',
      bytes,
      [strings([1], 1, 'a', 1, 'b')],
      `${UNKNOWN}unexpected number of string elements 2 for inference input 'INPUT' for model 'identity_bytes', expecting 1`,
      'inputs[0].data',
    ],
    [
      'string length cut short',
      bytes,
      [strings([1], '\u0001\u0000')],
      `${UNKNOWN}incomplete string length indicator for inference input 'INPUT' for model 'identity_bytes', expecting 4 bytes but only 2 bytes available. Please make sure the string length indicator is in one buffer.`,
      'inputs[0].data',
    ],
  ])('%s', (_name, signature, inputs, message, field) => {
    expect(checkRequest(signature, request(inputs))).toEqual({ code: 'INVALID_ARG', message, field });
  });

  test("the request's id", () => {
    expect(checkRequest(simple, request([i0()], { id: 'call-2' }))?.message).toMatch(
      /^\[request id: call-2\] expected 2 inputs/,
    );
  });

  test('unknown output among others', () => {
    expect(checkRequest(simple, request([i0(), i1()], { requestedOutputs: ['OUTPUT0', 'OUTPUT9'] }))).toEqual({
      code: 'INVALID_ARG',
      message: `unexpected inference output 'OUTPUT9' for model 'simple'`,
      field: 'outputs[1].name',
    });
  });
});

describe('steps of sequences', () => {
  const sequence: ModelSignature['sequence'] = {
    strategy: 'direct',
    slots: 4,
    iterative: false,
    controls: [],
    states: [],
  };
  const steps = { ...model('steps', 4, [input('INPUT', 'INT32', [1])]), sequence };
  const iterative = { ...steps, sequence: { ...sequence, iterative: true } };
  const row = (rows: number) => [tensor('INPUT', 'INT32', [rows, 1], rows * 4)];
  const needsId = "inference request to model 'steps' must specify a non-zero or non-empty correlation ID";
  const oneRow = "inference request to model 'steps' must specify batch-size 1 due to requirements of sequence batcher";
  const tooLong = 'string correlation ID cannot be longer than 128 characters';
  test.each<[string, ModelSignature, Tensor[], bigint | string, string | null]>([
    ['a number', steps, row(1), 1n, null],
    ['a text', steps, row(1), 'a'.repeat(128), null],
    ['no id', steps, row(1), 0n, needsId],
    ['an empty text', steps, row(1), '', needsId],
    ['no id, where requests are sequences by themselves', iterative, row(1), 0n, null],
    ['two rows', steps, row(2), 1n, oneRow],
    ['two rows and no id', steps, row(2), 0n, oneRow],
    ['two rows, where requests are sequences by themselves', iterative, row(2), 0n, oneRow],
    ['more rows than any batch', steps, row(5), 0n, `${UNKNOWN}inference request batch-size must be <= 4 for 'steps'`],
    ['no batch dimension', { ...steps, maxBatchSize: 0 }, [tensor('INPUT', 'INT32', [1], 4)], 1n, null],
    ['a longer text', steps, row(1), 'a'.repeat(129), tooLong],
    ['a text of more bytes', steps, row(1), 'é'.repeat(65), tooLong],
    [
      'a longer text, to a model without sequences',
      { ...steps, sequence: undefined },
      row(1),
      'a'.repeat(129),
      tooLong,
    ],
  ])('%s', (_name, signature, inputs, correlationId, message) => {
    expect(checkRequest(signature, request(inputs, { correlationId }))?.message ?? null).toBe(message);
  });
});

test.each([0n, ''])('a numbered step needs an id, of any model: %s', (correlationId) => {
  const inputs = [i0(), i1()];
  const wrong = checkRequest(simple, request(inputs, { correlationId, sequenceStep: 0 }));
  expect(wrong).toMatchObject({ code: 'INVALID_ARG', field: 'parameters.nereid_step' });
  expect(checkRequest(simple, request(inputs, { correlationId: 7n, sequenceStep: 0 }))).toBeNull();
});

describe("texts of Triton's source", () => {
  test.each<[string, ModelSignature, Tensor[], string]>([
    [
      'datatype',
      variable,
      [tensor('INPUT', 'FP64', [1], 8)],
      `${UNKNOWN}inference input 'INPUT' data-type is 'FP64', but model 'identity_fp32' expects 'FP32'`,
    ],
    [
      'too many inputs',
      variable,
      [fp32([1], 4), tensor('START', 'INT32', [1], 4)],
      `${UNKNOWN}expected 1 inputs but got 2 inputs for model 'identity_fp32'. Got input(s) ['INPUT','START'], but missing required input(s) []. Please provide all required input(s).`,
    ],
    [
      'no inputs of a model with optional ones',
      optional,
      [],
      `${UNKNOWN}expected number of inputs between 1 and 2 but got 0 inputs for model 'optional_inputs'. Got input(s) [], but missing required input(s) ['INPUT0']. Please provide all required input(s).`,
    ],
    [
      'no batch dimension',
      simple,
      [i0([], 4), i1([], 4)],
      `${UNKNOWN}input 'INPUT0' has no shape but model requires batch dimension for 'simple'`,
    ],
    [
      'negative dimension',
      variable,
      [fp32([-1], 4)],
      `${UNKNOWN}All input dimensions should be specified for input 'INPUT' for model 'identity_fp32', got [-1]`,
    ],
    [
      'byte size beyond 64 bits',
      model('m', 0, [input('INPUT', 'FP32', [-1, -1])]),
      [fp32([2 ** 40, 2 ** 40], 4)],
      `byte size for tensor 'INPUT' exceeds maximum size of 9223372036854775807`,
    ],
    [
      'byte size beyond 53 bits',
      variable,
      [fp32([2 ** 52 + 1], 4)],
      `${UNKNOWN}input byte size mismatch for input 'INPUT' for model 'identity_fp32'. Expected 18014398509481988, got 4`,
    ],
    [
      'strings beyond 64 bits',
      model('m', 0, [input('INPUT', 'BYTES', [-1, -1])]),
      [strings([2 ** 40, 2 ** 40], 0)],
      `element count for tensor 'INPUT' exceeds maximum size of 9223372036854775807`,
    ],
  ])('%s', (_name, signature, inputs, message) => {
    expect(checkRequest(signature, request(inputs))).toMatchObject({ code: 'INVALID_ARG', message });
  });
});

describe('refused beyond Triton', () => {
  test('a required input missing behind an optional one', () => {
    expect(checkRequest(optional, request([tensor('INPUT1', 'INT32', [4], 16)]))?.message).toMatch(
      /Got input\(s\) \['INPUT1'\], but missing required input\(s\) \['INPUT0'\]/,
    );
  });

  test('a batch of zero whose byte size fits', () => {
    expect(checkRequest(batched, request([fp32([0, 0, 2], 0)]))).toEqual({
      code: 'INVALID_ARG',
      message: `${UNKNOWN}inference request batch-size must be >= 1 for 'identity_batched_fp32'`,
      field: 'inputs[0].shape',
    });
  });

  test('a string longer than its tensor', () => {
    expect(checkRequest(bytes, request([strings([1], 50529027, 'abc')]))?.message).toBe(
      "incomplete string data for inference input 'INPUT', expecting string of length 50529027 but only 3 bytes available",
    );
  });

  test('an input twice among many', () => {
    const inputs = Array.from({ length: 40 }, (_, i) => ({ ...fp32([1], 4), name: `I${i % 39}` }));
    expect(checkRequest(variable, request(inputs))?.message).toBe(`${UNKNOWN}input 'I0' already exists in request`);
  });
});

test('whatever the shape, a request is good exactly when shape and size agree with the config', () => {
  const dims = fc.array(fc.constantFrom(-1, 1, 2, 3), { minLength: 1, maxLength: 3 });
  const shape = fc.array(fc.oneof({ weight: 5, arbitrary: fc.nat(3) }, fc.maxSafeNat()), {
    minLength: 4,
    maxLength: 4,
  });
  let accepted = 0;
  fc.assert(
    fc.property(dims, shape, fc.nat(9), fc.nat(4), (config, random, mistake, maxBatchSize) => {
      const signature = model('m', maxBatchSize, [input('INPUT', 'INT16', config)]);
      const full = maxBatchSize > 0 ? [-1, ...config] : config;
      const fitting = full.map((dim, i) => (dim === -1 ? (random[i] ?? 0) : dim));
      const sizes = mistake === 0 ? random : mistake === 1 ? fitting.slice(1) : fitting;
      const rows = maxBatchSize > 0 ? (sizes[0] ?? 0) : 1;
      const exact = sizes.reduce((count, size) => count * BigInt(size), 2n);
      const byteLength = mistake === 2 || exact > 1000n ? 1 : Number(exact);
      const good =
        sizes.length === full.length &&
        full.every((dim, i) => dim === -1 || dim === sizes[i]) &&
        rows >= 1 &&
        (maxBatchSize === 0 || rows <= maxBatchSize) &&
        exact === BigInt(byteLength);
      if (good) accepted++;
      const result = checkRequest(signature, request([tensor('INPUT', 'INT16', sizes, byteLength)]));
      expect(result === null).toBe(good);
    }),
    { numRuns: 2000, seed: 7 },
  );
  expect(accepted).toBeGreaterThan(200);
});
