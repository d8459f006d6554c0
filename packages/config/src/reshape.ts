import { elementCount, NereidError } from '@nereid/protocol';
import type { TensorSignature } from './model-signature.ts';

/**
 * The shape that the model takes for a tensor in the client's shape (model_config.proto,
 * ModelTensorReshape). The batch dimension, where there is one, stays in front.
 */
export function modelShape(signature: TensorSignature, shape: readonly number[], batching: boolean): number[] {
  return reshaped(shape, signature.dims, signature.reshape, batching);
}

/**
 * The shape that the client sees for a tensor in the model's shape. Throws INTERNAL for one that
 * cannot come of the reshape, since its elements would not fit.
 */
export function clientShape(signature: TensorSignature, shape: readonly number[], batching: boolean): number[] {
  const { name, reshape, dims } = signature;
  if (reshape === null) return [...shape];
  const seen = reshaped(shape, reshape, dims, batching);
  if (elementCount(seen) === elementCount(shape)) return seen;
  const text = `output '${name}' has shape [${shape.join(',')}], which is none of its reshape [${reshape.join(',')}]`;
  throw new NereidError('INTERNAL', text);
}

/** Variable dimensions keep their order: the i-th -1 of `to` has the size of the i-th -1 of `from`. */
function reshaped(
  shape: readonly number[],
  from: readonly number[],
  to: readonly number[] | null,
  batching: boolean,
): number[] {
  if (to === null) return [...shape];
  const first = batching ? 1 : 0;
  const sizes = shape.slice(first).filter((_, axis) => from[axis] === -1);
  let next = 0;
  return [...shape.slice(0, first), ...to.map((dim) => (dim === -1 ? (sizes[next++] ?? 1) : dim))];
}
