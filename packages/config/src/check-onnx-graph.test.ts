import { describe, expect, test } from 'vitest';
import { checkOnnxGraph } from './check-onnx-graph.ts';
import type { OnnxGraph } from './onnx-graph.ts';
import { parseModelConfig } from './parse-model-config.ts';

const tensor = (name: string, dims: number[] | null, elementType = 1) => ({ name, elementType, dims, symbols: [] });
const graph = (input: number[] | null, output: number[] | null, more: Partial<OnnxGraph> = {}): OnnxGraph => ({
  name: 'g',
  inputs: [tensor('I', input)],
  optionalInputs: [],
  outputs: [tensor('O', output), tensor('P', [1])],
  opsets: {},
  metadata: {},
  ...more,
});
const io = (input: string, output: string, rest = '') =>
  `${rest} input { name: "I" data_type: TYPE_FP32 ${input} } output { name: "O" data_type: TYPE_FP32 ${output} }`;

const INT32 = 6;
/** A batching model whose input is ragged, with a batch input of rank 1 and one of rank 2. */
const ragged = (rest = '', maxBatchSize = 4) =>
  io(
    'dims: [ -1, 2 ] allow_ragged_batch: true',
    'dims: 4',
    `max_batch_size: ${maxBatchSize}
    batch_input { target_name: "ENDS" data_type: TYPE_INT32 source_input: "I" }
    batch_input { kind: BATCH_ITEM_SHAPE target_name: "ITEMS" data_type: TYPE_INT32 source_input: "I" } ${rest}`,
  );
const raggedGraph = (output: number[] = [-1, 4], ends = tensor('ENDS', [-1], INT32), input: number[] = [-1]) =>
  graph(input, output, { inputs: [tensor('I', input), ends, tensor('ITEMS', [-1, 2], INT32)] });

function refusal(text: string, onnx: OnnxGraph): string {
  try {
    checkOnnxGraph(parseModelConfig(`name: "m" ${text}`, 'c'), onnx);
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG', field: expect.any(String) });
    return error instanceof Error ? error.message : '';
  }
  return 'fits';
}

describe('fits', () => {
  test.each<[string, string, OnnxGraph]>([
    ['the same', io('dims: [ 2, 3 ]', 'dims: 4'), graph([2, 3], [4])],
    ['batching', io('dims: 3', 'dims: 4', 'max_batch_size: 2'), graph([-1, 3], [-1, 4])],
    ['an input fixed by the config', io('dims: 3', 'dims: 4'), graph([-1], [4])],
    ['an output fixed by the config', io('dims: 3', 'dims: 4'), graph([3], [-1])],
    ['an output without a shape', io('dims: 3', 'dims: 4', 'max_batch_size: 2'), graph([-1, 3], null)],
    [
      'a reshape',
      io('dims: [ 2, 2 ] reshape { shape: 4 }', 'dims: 1 reshape { }', 'max_batch_size: 2'),
      graph([-1, 4], [-1]),
    ],
    ['scalars', io('dims: [ 1, 1 ]', 'dims: 1'), graph([], [])],
    [
      'an optional input with a default',
      io('dims: 3', 'dims: 4', 'input { name: "W" data_type: TYPE_FP32 dims: 2 optional: true }'),
      graph([3], [4], { optionalInputs: [tensor('W', [2])] }),
    ],
    ['a ragged input and its batch inputs', ragged(), raggedGraph()],
    ['a ragged input of a model that does not batch', ragged('', 0), raggedGraph([4])],
    ['a batch output of another rank', ragged('batch_output { target_name: "O" source_input: "I" }'), raggedGraph([7])],
  ])('%s', (_name, text, onnx) => {
    expect(refusal(text, onnx)).toBe('fits');
  });
});

describe('does not fit', () => {
  const load = `unable to load model 'm', `;
  test.each<[string, string, OnnxGraph, string]>([
    [
      'a ragged input with rows',
      ragged(),
      raggedGraph([-1, 4], undefined, [-1, 2]),
      `${load}configuration expects model provides input with shape [-1] for ragged input 'I', model provides [-1,2]`,
    ],
    [
      'a ragged input of a fixed size',
      ragged(),
      raggedGraph([-1, 4], undefined, [8]),
      `${load}configuration expects model provides input with shape [-1] for ragged input 'I', model provides [8]`,
    ],
    [
      'an optional ragged input',
      io(
        'dims: 3',
        'dims: 4',
        'input { name: "W" data_type: TYPE_FP32 dims: -1 optional: true allow_ragged_batch: true }',
      ),
      graph([3], [4], { optionalInputs: [tensor('W', [-1])] }),
      `${load}configuration expects model provides input with shape [-1] for ragged input 'W', which is not supported for optional input`,
    ],
    [
      'a batch input that the graph has not',
      ragged(),
      raggedGraph([-1, 4], tensor('OTHER', [-1], INT32)),
      `${load}unexpected inference input 'ENDS', allowed inputs are: I, ITEMS, OTHER`,
    ],
    [
      'a batch input of another datatype',
      ragged(),
      raggedGraph([-1, 4], tensor('ENDS', [-1], 7)),
      `${load}configuration expects datatype TYPE_INT32 for input 'ENDS', model provides TYPE_INT64`,
    ],
    [
      'a batch input of another rank',
      ragged(),
      raggedGraph([-1, 4], tensor('ENDS', [-1, 1], INT32)),
      `${load}batch input 'ENDS' of kind BATCH_ELEMENT_COUNT has 1 dimensions, model provides [-1,1]`,
    ],
    [
      'batch inputs that the graph has not room for',
      ragged(),
      graph([-1], [-1, 4]),
      `${load}configuration expects 3 inputs, model provides 1 ('I')`,
    ],
    [
      'too few inputs',
      io('dims: 3', 'dims: 4'),
      graph([3], [4], { inputs: [tensor('I', [3]), tensor('J', [3])] }),
      `${load}configuration expects 1 inputs, model provides 2 ('I', 'J')`,
    ],
    [
      'another input name',
      io('dims: 3', 'dims: 4'),
      graph([3], [4], { inputs: [tensor('J', [3])] }),
      `${load}unexpected inference input 'I', allowed inputs are: J`,
    ],
    [
      'another output name',
      `${io('dims: 3', 'dims: 4')} output { name: "Q" data_type: TYPE_FP32 dims: 1 }`,
      graph([3], [4]),
      `${load}unexpected inference output 'Q', allowed outputs are: O, P`,
    ],
    [
      'datatype',
      io('dims: 3', 'dims: 4'),
      graph([3], [4], { inputs: [tensor('I', [3], 7)] }),
      `${load}configuration expects datatype TYPE_FP32 for input 'I', model provides TYPE_INT64`,
    ],
    [
      'no tensor',
      io('dims: 3', 'dims: 4'),
      graph([3], [4], { outputs: [tensor('O', [4], 0)] }),
      `${load}configuration expects datatype TYPE_FP32 for output 'O', model provides no tensor`,
    ],
    [
      'an output that is fixed in the file',
      io('dims: 3', 'dims: -1'),
      graph([3], [4]),
      `${load}tensor 'O': the model expects 1 dimensions (shape [4]) but the model configuration specifies 1 dimensions (shape [-1])`,
    ],
    [
      'another rank with batching',
      io('dims: [ 3, 1 ]', 'dims: 4', 'max_batch_size: 2'),
      graph([-1, 3], [-1, 4]),
      `${load}tensor 'I': the model expects 2 dimensions (shape [-1,3]) but the model configuration specifies 3 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,3,1])`,
    ],
    [
      'no batch dimension',
      io('dims: 3', 'dims: 4', 'max_batch_size: 2'),
      graph([1, 3], [-1, 4]),
      `${load}tensor 'I': for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is [1,3]; set max_batch_size to 0 and give the full shape in dims`,
    ],
    [
      'a scalar with batching',
      io('dims: 3', 'dims: 4', 'max_batch_size: 2'),
      graph([], [-1, 4]),
      `${load}tensor 'I': for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is []; set max_batch_size to 0 and give the full shape in dims`,
    ],
    [
      'dims of a scalar',
      io('dims: 2', 'dims: 4'),
      graph([], [4]),
      `${load}scalar tensor 'I' should only provide 1 in the model configuration when the model does not support batching. Model configuration provided: [2].`,
    ],
    [
      'an optional input with batching',
      io('dims: 3 optional: true', 'dims: 4', 'max_batch_size: 2'),
      graph([-1, 3], [-1, 4], { inputs: [], optionalInputs: [tensor('I', [-1, 3])] }),
      `${load}optional input 'I' is not supported for models that support batching`,
    ],
    [
      'an optional input without a default',
      io('dims: 3 optional: true', 'dims: 4', 'input { name: "J" data_type: TYPE_FP32 dims: 3 }'),
      graph([3], [4], { optionalInputs: [tensor('J', [3])] }),
      `${load}input 'I' cannot be optional: the model has no default for it (an initializer of that name)`,
    ],
  ])('%s', (_name, text, onnx, expected) => {
    expect(refusal(text, onnx)).toBe(expected);
  });
});
