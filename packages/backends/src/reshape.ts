import type { TensorSignature } from '@nereid/config';

/**
 * The shape that the model takes for a tensor in the client's shape (model_config.proto,
 * ModelTensorReshape). The batch dimension, where there is one, stays in front.
 */
export function modelShape(signature: TensorSignature, shape: readonly number[], batching: boolean): number[] {
  return reshaped(shape, signature.dims, signature.reshape, batching);
}

/** The shape that the client sees for a tensor in the model's shape. */
export function clientShape(signature: TensorSignature, shape: readonly number[], batching: boolean): number[] {
  return signature.reshape === null ? [...shape] : reshaped(shape, signature.reshape, signature.dims, batching);
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
