import { describe, expect, test } from 'vitest';
import { ensembleInput, ensembleOutputShape, stepInputShape } from './ensemble-shapes.ts';
import type { TensorSignature } from './model-signature.ts';

const tensor = (dims: number[], reshape: number[] | null = null): TensorSignature => ({
  name: 'X',
  datatype: 'FP32',
  dims,
  reshape,
});

// As Triton 2.51.0 answered ensembles of these.
describe('what a step is given', () => {
  test.each([
    ['rows to a model with batches', [3, 4], true, 8, [4], [3, 4]],
    ['no rows to one without', [4], false, 0, [4], [4]],
    ['no rows to one with batches', [4], false, 8, [4], [1, 4]],
    ['rows that are a dimension to one with batches', [3, 4], false, 8, [4], [3, 4]],
    ['rows to one that has them as a dimension', [3, 4], true, 0, [-1, 4], [3, 4]],
    ['one row to one that has them as a dimension', [1, 4], true, 0, [-1, 4], [1, 4]],
    ['one row to one without', [1, 4], true, 0, [4], [4]],
    ['several rows to one without, which it refuses', [3, 4], true, 0, [4], [3, 4]],
  ])('%s', (_name, shape, batched, maxBatchSize, dims, expected) => {
    expect(stepInputShape({ shape, batched }, { maxBatchSize }, tensor(dims))).toEqual(expected);
  });
});

test('inputs are reshaped, and told whether they are batches', () => {
  expect(ensembleInput({ maxBatchSize: 8 }, tensor([2, 2], [4]), [3, 2, 2])).toEqual({ shape: [3, 4], batched: true });
  expect(ensembleInput({ maxBatchSize: 0 }, tensor([2, 2], [4]), [2, 2])).toEqual({ shape: [4], batched: false });
});

test('outputs are as the ensemble says, reshaped back', () => {
  const output = tensor([2, 2], [4]);
  expect(ensembleOutputShape({ shape: [3, 4], batched: true }, { maxBatchSize: 8 }, output)).toEqual([3, 2, 2]);
  expect(ensembleOutputShape({ shape: [4], batched: false }, { maxBatchSize: 8 }, output)).toEqual([1, 2, 2]);
  expect(ensembleOutputShape({ shape: [1, 4], batched: true }, { maxBatchSize: 0 }, tensor([4]))).toEqual([4]);
});
