import type { ModelSignature, TensorSignature } from '@nereid/config';
import { describe, expect, test } from 'vitest';
import type { JoinedTensor } from './backend.ts';
import { scatteredShapes } from './scattered-shapes.ts';

type Shapes = readonly (readonly number[])[];
const tensor = (dims: number[], reshape: number[] | null = null): TensorSignature => ({
  name: 'X',
  datatype: 'FP32',
  dims,
  reshape,
});

function scattered(
  maxBatchSize: number,
  input: TensorSignature,
  shapes: Shapes,
  output: TensorSignature,
  ragged = true,
) {
  const signature: ModelSignature = {
    name: 'm',
    maxBatchSize,
    inputs: [{ ...input, optional: false, ragged }],
    outputs: [output],
    batchInputs: [],
    batchOutputs: [],
    decoupled: false,
  };
  const rows = shapes.map(([count = 1]) => (maxBatchSize > 0 ? count : 1));
  const total = rows.reduce((sum, count) => sum + count, 0);
  const plain = maxBatchSize > 0 ? [total, ...(shapes[0] ?? []).slice(1)] : (shapes[0] ?? []);
  const whole = { name: 'X', datatype: 'FP32' as const, shape: plain, data: new Uint8Array() };
  const joined: JoinedTensor = ragged ? { ...whole, shapes } : whole;
  return scatteredShapes(signature, { rows, joined: [joined] }, output, { target: 'X', source: 'X' });
}

describe('what each request gets of a scattered output', () => {
  test.each<[rule: string, max: number, TensorSignature, Shapes, TensorSignature, expected: Shapes, ragged?: boolean]>([
    [
      'its rows and elements',
      8,
      tensor([-1]),
      [
        [1, 3],
        [2, 4],
      ],
      tensor([-1]),
      [
        [1, 3],
        [2, 4],
      ],
    ],
    [
      'fixed dimensions stay',
      8,
      tensor([-1, -1]),
      [
        [1, 3, 9],
        [1, 4, 9],
      ],
      tensor([-1, 5]),
      [
        [1, 3, 5],
        [1, 4, 5],
      ],
    ],
    ['a variable one has the size of the same one', 8, tensor([7, -1]), [[1, 7, 3]], tensor([2, -1]), [[1, 2, 3]]],
    ['without rows the first dimension is as any other', 0, tensor([-1, 2]), [[6, 2]], tensor([-1, 3]), [[6, 3]]],
    ['the source as the model sees it', 8, tensor([2, -1], [-1, 2]), [[1, 2, 3]], tensor([-1]), [[1, 3]]],
    ['the output as the client sees it', 8, tensor([-1, -1]), [[1, 3, 4]], tensor([2, -1], [-1, 2]), [[1, 2, 3]]],
    [
      'a source that is not ragged',
      8,
      tensor([-1]),
      [
        [2, 3],
        [1, 3],
      ],
      tensor([-1, 4]),
      [
        [2, 3, 4],
        [1, 3, 4],
      ],
      false,
    ],
  ])('%s', (_rule, max, input, shapes, output, expected, ragged) => {
    expect(scattered(max, input, shapes, output, ragged)).toEqual(expected);
  });

  test('nothing where no request has the source', () => {
    const output = tensor([-1]);
    const signature: ModelSignature = {
      name: 'm',
      maxBatchSize: 8,
      inputs: [],
      outputs: [output],
      batchInputs: [],
      batchOutputs: [],
      decoupled: false,
    };
    expect(scatteredShapes(signature, { rows: [1], joined: [] }, output, { target: 'X', source: 'X' })).toBeUndefined();
  });
});
