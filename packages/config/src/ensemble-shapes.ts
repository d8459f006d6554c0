/** Shapes of an ensemble's tensors on their way between models with and without batches (ensemble_scheduler.cc, ReshapeTensorDims). */
import type { ModelSignature, TensorSignature } from './model-signature.ts';
import { clientShape, modelShape } from './reshape.ts';

/** A tensor of an ensemble as whoever gave it shaped it. */
export interface ComposedTensor {
  readonly shape: readonly number[];
  /** Its first dimension is that of the batch: the ensemble, or the model that gave it, has batches. */
  readonly batched: boolean;
}

/** An input of a request, as the ensemble's steps see it: reshaped where its config says so. */
export function ensembleInput(
  ensemble: Pick<ModelSignature, 'maxBatchSize'>,
  input: TensorSignature,
  shape: readonly number[],
): ComposedTensor {
  const batched = ensemble.maxBatchSize > 0;
  return { shape: modelShape(input, shape, batched), batched };
}

/** The shape in which a tensor goes to a step as this input of its model; the model's own checks may refuse it. */
export function stepInputShape(
  tensor: ComposedTensor,
  model: Pick<ModelSignature, 'maxBatchSize'>,
  input: TensorSignature,
): readonly number[] {
  return fitted(tensor, input.dims, model.maxBatchSize > 0);
}

/** The shape in which a tensor is answered as this output. Throws INTERNAL for one that none of its reshape gives. */
export function ensembleOutputShape(
  tensor: ComposedTensor,
  ensemble: Pick<ModelSignature, 'maxBatchSize'>,
  output: TensorSignature,
): readonly number[] {
  const batching = ensemble.maxBatchSize > 0;
  return clientShape(output, fitted(tensor, output.reshape ?? output.dims, batching), batching);
}

/**
 * One that batches takes a tensor of its dims for one row, and any other as it is. One that does not takes the batch for a
 * dimension of its own where it has one, and else a batch of one row without it.
 */
function fitted({ shape, batched }: ComposedTensor, dims: readonly number[], batching: boolean): readonly number[] {
  if (batching === batched) return shape;
  if (batching) return isOf(shape, dims) ? [1, ...shape] : shape;
  return !isOf(shape, dims) && shape[0] === 1 ? shape.slice(1) : shape;
}

function isOf(shape: readonly number[], dims: readonly number[]): boolean {
  return shape.length === dims.length && dims.every((dim, axis) => dim === -1 || dim === shape[axis]);
}
