import { describe, expect, test } from 'vitest';
import { checkOnnxGraph } from './check-onnx-graph.ts';
import { completeFromOnnx } from './complete-from-onnx.ts';
import type { OnnxGraph } from './onnx-graph.ts';
import { parseModelConfig } from './parse-model-config.ts';

const FP32 = 1;
const INT32 = 6;
const UINT64 = 13;
const tensor = (name: string, dims: number[] | null, elementType = FP32) => ({ name, elementType, dims, symbols: [] });
const INPUTS = [
  tensor('I', [-1, 2]),
  tensor('START', [-1, 1], INT32),
  tensor('ID', [-1, 1], UINT64),
  tensor('S_IN', [-1, 3]),
];
const OUTPUTS = [tensor('O', [-1, 2]), tensor('S_OUT', [-1, 3])];

/** The graph with these tensors in place of those of their names; null takes one out. */
function graph(changes: Record<string, ReturnType<typeof tensor> | null> = {}): OnnxGraph {
  const changed = (tensors: typeof INPUTS) =>
    tensors.flatMap((one) => (one.name in changes ? (changes[one.name] ?? []) : one));
  return {
    name: 'g',
    inputs: changed(INPUTS),
    optionalInputs: [],
    outputs: changed(OUTPUTS),
    opsets: {},
    metadata: {},
  };
}
const SEQUENCES = `sequence_batching {
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  state { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: 3 }
}`;
const parse = (text: string) => parseModelConfig(`name: "m" ${text}`, 'c');
const config = parse(`max_batch_size: 4 input { name: "I" data_type: TYPE_FP32 dims: 2 }
  output { name: "O" data_type: TYPE_FP32 dims: 2 } ${SEQUENCES}`);

function refusal(onnx: OnnxGraph): string {
  try {
    checkOnnxGraph(config, onnx);
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG', field: expect.any(String) });
    return error instanceof Error ? error.message : '';
  }
  return 'fits';
}

describe('controls and states fit a graph', () => {
  test.each<[string, OnnxGraph]>([
    ['that has them', graph()],
    [
      'that leaves shapes open',
      graph({ S_IN: tensor('S_IN', [-1, -1]), S_OUT: tensor('S_OUT', null), ID: tensor('ID', null, UINT64) }),
    ],
  ])('%s', (_name, onnx) => {
    expect(refusal(onnx)).toBe('fits');
  });
});

describe('they do not fit a graph', () => {
  const load = `unable to load model 'm', `;
  test.each<[string, OnnxGraph, string]>([
    [
      'without the control',
      graph({ START: null }),
      "configuration specified sequence control 'START', but model does not provide that input",
    ],
    [
      'with a control of another size',
      graph({ START: tensor('START', [-1, 2], INT32) }),
      `${load}sequence control 'START' in model has dims [2] but dims [1] is expected`,
    ],
    [
      'with a control of another datatype',
      graph({ ID: tensor('ID', [-1, 1], INT32) }),
      `${load}sequence control 'ID', the model expects data-type TYPE_INT32 but the model configuration specifies data-type TYPE_UINT64`,
    ],
    [
      'without the state',
      graph({ S_IN: null }),
      `${load}unexpected inference input 'S_IN', allowed inputs are: I, ID, START`,
    ],
    [
      'without its output',
      graph({ S_OUT: null }),
      `${load}unexpected inference output 'S_OUT', allowed outputs are: O`,
    ],
    [
      'with a state of another datatype',
      graph({ S_OUT: tensor('S_OUT', [-1, 3], INT32) }),
      `${load}configuration expects datatype TYPE_FP32 for output state 'S_OUT', model provides TYPE_INT32`,
    ],
    [
      'with a state of another size',
      graph({ S_IN: tensor('S_IN', [-1, 4]) }),
      `${load}the model expects shape [-1,4] for input state 'S_IN' but the model configuration specifies shape [-1,3]`,
    ],
    [
      'with a state that does not batch',
      graph({ S_IN: tensor('S_IN', [4, 3]) }),
      `${load}the model expects shape [4,3] for input state 'S_IN' but the model configuration specifies shape [-1,3]`,
    ],
  ])('%s', (_name, onnx, message) => {
    expect(refusal(onnx)).toBe(message);
  });

  test('of more inputs', () => {
    const onnx = graph();
    const text = `${load}configuration expects 4 inputs, model provides 5 ('I', 'START', 'ID', 'S_IN', 'MORE')`;
    expect(refusal({ ...onnx, inputs: [...onnx.inputs, tensor('MORE', [-1, 1])] })).toBe(text);
  });
});

test('a config is completed without controls and states, and fits then', () => {
  const completed = completeFromOnnx(parse(SEQUENCES), graph());
  expect(completed.maxBatchSize).toBe(4);
  expect(completed.schedulingChoice.case).toBe('sequenceBatching');
  expect(completed.input.map(({ name }) => name)).toEqual(['I']);
  expect(completed.output.map(({ name }) => name)).toEqual(['O']);
  expect(() => checkOnnxGraph(completed, graph())).not.toThrow();
});
