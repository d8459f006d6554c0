import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../../deploy/setup/checkout.mjs';

/**
 * The models that are asked, and what the fuzzer itself makes of their inputs: `answer` takes
 * `{ name: { shape, elements } }` and gives the outputs in the same form.
 */

const ONNX = join(ROOT, 'test', 'conformance', 'repo', 'onnx');
const OURS = join(ROOT, 'test', 'fuzz', 'repository');

const tensor = (name, datatype, dims, more = {}) => ({ name, datatype, dims, ...more });

const identity = (name, datatype, dims = [-1], more = {}) => ({
  name,
  batchMax: 0,
  inputs: [tensor('INPUT', datatype, dims)],
  outputs: [tensor('OUTPUT', datatype, dims)],
  answer: ({ INPUT }) => ({ OUTPUT: INPUT }),
  ...more,
});

const addSub = (name, datatype, dims, batchMax, round) => ({
  name,
  batchMax,
  inputs: [tensor('INPUT0', datatype, dims), tensor('INPUT1', datatype, dims)],
  outputs: [tensor('OUTPUT0', datatype, dims), tensor('OUTPUT1', datatype, dims)],
  answer: ({ INPUT0: { shape, elements: left }, INPUT1: { elements: right } }) => ({
    OUTPUT0: { shape, elements: left.map((value, index) => round(value + right[index])) },
    OUTPUT1: { shape, elements: left.map((value, index) => round(value - right[index])) },
  }),
});

const wrapped = (value) => value | 0;
const negated = (values) => values.map((value) => -value);
const LABELS = ['apple', 'pear', 'plum', 'cherry'];

export const MODELS = [
  addSub('simple', 'INT32', [16], 8, wrapped),
  addSub('add_sub', 'FP32', [4], 0, Math.fround),
  {
    name: 'classifier',
    batchMax: 4,
    inputs: [tensor('SCORES', 'FP32', [4])],
    outputs: [tensor('LABELLED', 'FP32', [4], { labels: LABELS }), tensor('UNLABELLED', 'FP32', [4])],
    answer: ({ SCORES }) => ({
      LABELLED: SCORES,
      UNLABELLED: { shape: SCORES.shape, elements: negated(SCORES.elements) },
    }),
  },
  {
    name: 'optional_inputs',
    batchMax: 0,
    inputs: [tensor('INPUT0', 'INT32', [4]), tensor('INPUT1', 'INT32', [4], { optional: true })],
    outputs: [tensor('OUTPUT', 'INT32', [4])],
    answer: ({ INPUT0: { shape, elements }, INPUT1 }) => ({
      OUTPUT: { shape, elements: elements.map((value, index) => wrapped(value + (INPUT1?.elements[index] ?? 0))) },
    }),
  },
  {
    name: 'text',
    batchMax: 0,
    inputs: [tensor('text_input', 'BYTES', [1])],
    outputs: [tensor('text_output', 'BYTES', [1])],
    answer: ({ text_input }) => ({ text_output: text_input }),
  },
  ...[
    'bool',
    'bytes',
    'fp16',
    'fp32',
    'fp64',
    'int8',
    'int16',
    'int32',
    'int64',
    'uint8',
    'uint16',
    'uint32',
    'uint64',
  ].map((type) => identity(`identity_${type}`, type.toUpperCase())),
  identity('identity_2d', 'FP32', [-1, -1]),
  identity('identity_batched_fp32', 'FP32', [-1, 2], { batchMax: 4 }),
  identity('identity_batched_bytes', 'BYTES', [-1], { batchMax: 4 }),
  // Requests of any shapes in a batch, which ONNX gets as one run of elements and JavaScript one by one.
  identity('fuzz_ragged_text', 'BYTES', [-1, -1], { batchMax: 8 }),
  identity('fuzz_ragged', 'FP32', [-1, 3], { batchMax: 8 }),
  // JavaScript: any bytes, BF16, and what reaches a model of a request's parameters.
  identity('fuzz_bytes', 'BYTES', [-1], { batchMax: 4, anyBytes: true }),
  identity('fuzz_bf16', 'BF16'),
  {
    ...identity('fuzz_parameters', 'INT32', [1]),
    outputs: [tensor('OUTPUT', 'INT32', [1]), tensor('SEEN', 'BYTES', [1])],
    seesParameters: true,
  },
];

/** Decoupled: COUNT answers, each with the text and its number. */
export const WORDS = {
  name: 'fuzz_words',
  batchMax: 0,
  decoupled: true,
  inputs: [tensor('TEXT', 'BYTES', [1]), tensor('COUNT', 'INT32', [1])],
  outputs: [tensor('WORD', 'BYTES', [1]), tensor('INDEX', 'INT32', [1])],
};

/** Its graph fails at each execution (errors_http/execution_fails). */
export const FAILING = identity('fail_execute', 'INT32');

/** Makes a repository of all of them. */
export function createFuzzRepository() {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-fuzz-'));
  for (const { name } of [...MODELS, WORDS, FAILING]) {
    cpSync(join(name.startsWith('fuzz_') ? OURS : ONNX, name), join(folder, name), { recursive: true });
  }
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** What `fuzz_parameters` makes of the parameters: their names and values in order of names. */
export function parametersSeen(parameters) {
  const names = Object.keys(parameters).sort();
  return JSON.stringify(names.map((name) => [name, typeof parameters[name], String(parameters[name])]));
}
