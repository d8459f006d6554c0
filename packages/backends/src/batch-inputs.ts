import type { BatchInputSignature, ModelSignature } from '@nereid/config';
import { bytesOf, elementCount, type Tensor } from '@nereid/protocol';
import type { Batch } from './backend.ts';
import { requestShapes } from './request-shapes.ts';

/**
 * The inputs that are made of a batch (model_config.proto, BatchInput; backend_input_collector.cc),
 * one tensor per target. Element counts are those of whole requests, however many rows they have;
 * item shapes stand once per row and leave the first dimension out. One whose source no request has
 * is left out.
 */
export function batchInputTensors(signature: ModelSignature, batch: Pick<Batch, 'rows' | 'joined'>): Tensor[] {
  const tensors: Tensor[] = [];
  for (const batchInput of signature.batchInputs) {
    const shapes = requestShapes(signature, batch, batchInput.source);
    if (shapes === undefined) continue;
    const { datatype } = batchInput;
    for (const name of batchInput.targets) tensors.push({ name, datatype, ...described(batchInput, shapes) });
  }
  return tensors;
}

type ShapeAndData = Pick<Tensor, 'shape' | 'data'>;

function described({ kind, datatype }: BatchInputSignature, shapes: readonly (readonly number[])[]): ShapeAndData {
  const array = (values: readonly number[] | number) => {
    const length = typeof values === 'number' ? values : values.length;
    const made = datatype === 'FP32' ? new Float32Array(length) : new Int32Array(length);
    if (typeof values !== 'number') made.set(values);
    return bytesOf(made);
  };
  const vector = (values: readonly number[]): ShapeAndData => ({ shape: [values.length], data: array(values) });
  switch (kind) {
    case 'ELEMENT_COUNT':
      return vector(shapes.map(elements));
    case 'ACCUMULATED_ELEMENT_COUNT':
      return vector(sums(shapes.map(elements)));
    case 'ACCUMULATED_ELEMENT_COUNT_WITH_ZERO':
      return vector([0, ...sums(shapes.map(elements))]);
    case 'MAX_ELEMENT_COUNT_AS_SHAPE': {
      const most = Math.max(...shapes.map(elements));
      // Only the shape tells something; Triton leaves the values as they are in memory.
      return { shape: [most], data: array(most) };
    }
    case 'ITEM_SHAPE': {
      const rank = Math.max(0, (shapes[0]?.length ?? 0) - 1);
      const items = itemShapes(shapes);
      return { shape: [items.length, rank], data: array(items.flat()) };
    }
    case 'ITEM_SHAPE_FLATTEN':
      return vector(itemShapes(shapes).flat());
  }
}

function elements(shape: readonly number[]): number {
  return elementCount(shape) ?? 0;
}

function sums(counts: readonly number[]): number[] {
  let sum = 0;
  return counts.map((count) => {
    sum += count;
    return sum;
  });
}

/** The shape of each row. */
function itemShapes(shapes: readonly (readonly number[])[]): (readonly number[])[] {
  return shapes.flatMap(([rows = 0, ...rest]) => Array.from({ length: rows }, () => rest));
}
