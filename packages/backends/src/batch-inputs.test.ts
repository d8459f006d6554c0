import type { BatchInputKind, InputSignature, ModelSignature } from '@nereid/config';
import { type Tensor, tensorValues } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import type { Batch, JoinedTensor } from './backend.ts';
import { batchInputTensors } from './batch-inputs.ts';

const input = (name: string, dims: number[], more: Partial<InputSignature> = {}): InputSignature => ({
  name,
  datatype: 'FP32',
  dims,
  reshape: null,
  optional: false,
  ragged: true,
  ...more,
});

function signature(kind: BatchInputKind, datatype: 'INT32' | 'FP32' = 'INT32', more: Partial<ModelSignature> = {}) {
  return {
    name: 'm',
    maxBatchSize: 8,
    inputs: [input('IN', [-1])],
    outputs: [],
    batchInputs: [{ kind, targets: ['T'], datatype, source: 'IN' }],
    batchOutputs: [],
    decoupled: false,
    ...more,
  } satisfies ModelSignature;
}

const joined = (shapes?: number[][], shape: number[] = []): JoinedTensor => ({
  name: 'IN',
  datatype: 'FP32',
  shape,
  data: new Uint8Array(),
  ...(shapes === undefined ? {} : { shapes }),
});
const batch = (shapes: number[][]): Pick<Batch, 'rows' | 'joined'> => ({
  rows: shapes.map(([rows = 1]) => rows),
  joined: [joined(shapes)],
});
const read = ({ name, shape, datatype, data }: Tensor) => [
  name,
  datatype,
  [...shape],
  [...(tensorValues({ name, shape, datatype, data }) as ArrayLike<number> as number[])],
];

describe('the kinds, of requests with 3, 4 and 5 elements', () => {
  test.each<[BatchInputKind, shape: number[], values: number[]]>([
    ['ELEMENT_COUNT', [3], [3, 4, 5]],
    ['ACCUMULATED_ELEMENT_COUNT', [3], [3, 7, 12]],
    ['ACCUMULATED_ELEMENT_COUNT_WITH_ZERO', [4], [0, 3, 7, 12]],
    ['MAX_ELEMENT_COUNT_AS_SHAPE', [5], [0, 0, 0, 0, 0]],
    ['ITEM_SHAPE', [3, 1], [3, 4, 5]],
    ['ITEM_SHAPE_FLATTEN', [3], [3, 4, 5]],
  ])('%s', (kind, shape, values) => {
    for (const datatype of ['INT32', 'FP32'] as const) {
      const made = batchInputTensors(
        signature(kind, datatype),
        batch([
          [1, 3],
          [1, 4],
          [1, 5],
        ]),
      );
      expect(made.map(read)).toEqual([['T', datatype, shape, values]]);
    }
  });
});

// The example of model_config.proto for BATCH_ITEM_SHAPE: [3, 1] twice in one request, [2, 2] once in another.
describe('the kinds, of a request with two rows and one with one', () => {
  test.each<[BatchInputKind, shape: number[], values: number[]]>([
    ['ELEMENT_COUNT', [2], [6, 4]],
    ['ACCUMULATED_ELEMENT_COUNT', [2], [6, 10]],
    ['ACCUMULATED_ELEMENT_COUNT_WITH_ZERO', [3], [0, 6, 10]],
    ['MAX_ELEMENT_COUNT_AS_SHAPE', [6], [0, 0, 0, 0, 0, 0]],
    ['ITEM_SHAPE', [3, 2], [3, 1, 3, 1, 2, 2]],
    ['ITEM_SHAPE_FLATTEN', [6], [3, 1, 3, 1, 2, 2]],
  ])('%s', (kind, shape, values) => {
    const model = signature(kind, 'INT32', { inputs: [input('IN', [-1, -1])] });
    expect(
      batchInputTensors(
        model,
        batch([
          [2, 3, 1],
          [1, 2, 2],
        ]),
      ).map(read),
    ).toEqual([['T', 'INT32', shape, values]]);
  });
});

describe('batch inputs', () => {
  test('a source that is not ragged has the same dimensions in each row', () => {
    const model = signature('ITEM_SHAPE', 'INT32', { inputs: [input('IN', [-1], { ragged: false })] });
    const made = batchInputTensors(model, { rows: [1, 2], joined: [joined(undefined, [3, 7])] });
    expect(made.map(read)).toEqual([['T', 'INT32', [3, 1], [7, 7, 7]]]);
  });

  test('a source without rows has its whole shape', () => {
    const model = signature('ELEMENT_COUNT', 'INT32', {
      maxBatchSize: 0,
      inputs: [input('IN', [-1, 2], { ragged: false })],
    });
    expect(batchInputTensors(model, { rows: [1], joined: [joined(undefined, [5, 2])] }).map(read)).toEqual([
      ['T', 'INT32', [1], [10]],
    ]);
  });

  test('item shapes are those that the model sees', () => {
    const model = signature('ITEM_SHAPE', 'INT32', { inputs: [input('IN', [2, -1], { reshape: [-1, 2, 1] })] });
    expect(
      batchInputTensors(
        model,
        batch([
          [1, 2, 3],
          [1, 2, 4],
        ]),
      ).map(read),
    ).toEqual([['T', 'INT32', [2, 3], [3, 2, 1, 4, 2, 1]]]);
  });

  test('each target gets it', () => {
    const model = signature('ELEMENT_COUNT', 'INT32', {
      batchInputs: [{ kind: 'ELEMENT_COUNT', targets: ['T', 'U'], datatype: 'INT32', source: 'IN' }],
    });
    expect(batchInputTensors(model, batch([[1, 3]])).map(({ name }) => name)).toEqual(['T', 'U']);
  });

  test('one without its source is left out', () => {
    expect(batchInputTensors(signature('ELEMENT_COUNT'), { rows: [1], joined: [] })).toEqual([]);
  });
});
