import { describe, expect, test } from 'vitest';
import { completeFromOnnx } from './complete-from-onnx.ts';
import type { OnnxGraph } from './onnx-graph.ts';
import { parseModelConfig } from './parse-model-config.ts';

const FP32 = 1;
const STRING = 8;
const tensor = (name: string, dims: number[] | null, elementType = FP32) => ({ name, elementType, dims, symbols: [] });
function graph(inputs: (number[] | null)[], outputs: (number[] | null)[]): OnnxGraph {
  return {
    name: 'g',
    inputs: inputs.map((dims, i) => tensor(`I${i}`, dims)),
    optionalInputs: [tensor('W', [4])],
    outputs: outputs.map((dims, i) => tensor(`O${i}`, dims, STRING)),
    opsets: {},
    metadata: {},
  };
}
const parse = (text: string) => parseModelConfig(`name: "m" ${text}`, 'c');

function summary(text: string, onnx: OnnxGraph, defaultMaxBatchSize?: number) {
  const config = completeFromOnnx(parse(text), onnx, defaultMaxBatchSize);
  const io = [...config.input, ...config.output].map((one) => [
    one.name,
    one.dims.map(Number),
    one.reshape === undefined ? null : one.reshape.shape.map(Number),
  ]);
  return { max: config.maxBatchSize, scheduling: config.schedulingChoice.case, io };
}

describe('batching', () => {
  test.each<[string, string, OnnxGraph, number | undefined, number, string | undefined, unknown[]]>([
    [
      'all first dimensions variable',
      '',
      graph([[-1, 3]], [[-1, 2]]),
      undefined,
      4,
      'dynamicBatching',
      [
        ['I0', [3], null],
        ['O0', [2], null],
      ],
    ],
    [
      'another default',
      '',
      graph([[-1, 3]], [[-1]]),
      16,
      16,
      'dynamicBatching',
      [
        ['I0', [3], null],
        ['O0', [1], []],
      ],
    ],
    [
      'a default of 1 batches nothing',
      '',
      graph([[-1]], [[-1]]),
      1,
      1,
      undefined,
      [
        ['I0', [1], []],
        ['O0', [1], []],
      ],
    ],
    [
      'a default of 0',
      '',
      graph([[-1, 3]], [[-1]]),
      0,
      0,
      undefined,
      [
        ['I0', [-1, 3], null],
        ['O0', [-1], null],
      ],
    ],
    [
      'a given size stays',
      'max_batch_size: 2',
      graph([[-1]], [[-1]]),
      undefined,
      2,
      'dynamicBatching',
      [
        ['I0', [1], []],
        ['O0', [1], []],
      ],
    ],
    [
      'a given scheduler stays',
      'max_batch_size: 2 sequence_batching { }',
      graph([[-1]], [[-1]]),
      undefined,
      2,
      'sequenceBatching',
      [
        ['I0', [1], []],
        ['O0', [1], []],
      ],
    ],
    [
      'one output fixed',
      '',
      graph([[-1, 3]], [[-1], [2]]),
      undefined,
      0,
      undefined,
      [
        ['I0', [-1, 3], null],
        ['O0', [-1], null],
        ['O1', [2], null],
      ],
    ],
    [
      'one input fixed',
      '',
      graph([[1, 3], [-1]], [[-1]]),
      undefined,
      0,
      undefined,
      [
        ['I0', [1, 3], null],
        ['I1', [-1], null],
        ['O0', [-1], null],
      ],
    ],
    [
      'a scalar',
      '',
      graph([[]], [[-1]]),
      undefined,
      0,
      undefined,
      [
        ['I0', [1], null],
        ['O0', [-1], null],
      ],
    ],
  ])('%s', (_name, text, onnx, size, max, scheduling, io) => {
    expect(summary(text, onnx, size)).toEqual({ max, scheduling, io });
  });

  test('a model that cannot batch', () => {
    expect(() => summary('max_batch_size: 2', graph([[3]], [[-1]]))).toThrow(
      "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified",
    );
  });
});

describe('only the missing side', () => {
  const input = 'input { name: "mine" data_type: TYPE_INT8 dims: 7 }';
  const output = 'output { name: "own" data_type: TYPE_INT8 dims: 9 }';
  test.each<[string, string, unknown]>([
    [
      'inputs given',
      input,
      {
        max: 4,
        io: [
          ['mine', [7], null],
          ['O0', [2], null],
        ],
      },
    ],
    [
      'outputs given',
      output,
      {
        max: 4,
        io: [
          ['I0', [3], null],
          ['own', [9], null],
        ],
      },
    ],
    [
      'both given: nothing changes',
      `${input} ${output}`,
      {
        max: 0,
        scheduling: undefined,
        io: [
          ['mine', [7], null],
          ['own', [9], null],
        ],
      },
    ],
    ['a batch input counts as one', `batch_input { } ${output}`, { max: 0, io: [['own', [9], null]] }],
  ])('%s', (_name, text, expected) => {
    expect(summary(text, graph([[-1, 3]], [[-1, 2]]))).toMatchObject(expected as object);
  });
});

test('datatypes', () => {
  const config = completeFromOnnx(parse(''), graph([[3]], [[2]]));
  expect([config.input[0]?.dataType, config.output[0]?.dataType]).toEqual([11, 13]);
});

describe('what no config can describe', () => {
  test.each([
    ['no tensor', 0, [1], /'X' is no tensor, which no config can describe/],
    ['a complex number', 14, [1], /'X' is of ONNX element type 14, which no config can describe/],
    ['no shape', FP32, null, /the graph gives no shape for 'X'; write its dims in config.pbtxt/],
  ])('%s', (_name, elementType, dims, text) => {
    const onnx = { ...graph([[3]], []), outputs: [tensor('X', dims, elementType)] };
    expect(() => completeFromOnnx(parse(''), onnx)).toThrow(text);
  });
});
