import type { ModelSignature } from '@nereid/config';
import { modelShape } from '@nereid/config/reshape.js';
import type { Batch } from './backend.ts';

/** The shapes of one input, one per request of a batch and in their order, as the model would see each alone; undefined where no request has it. */
export function requestShapes(
  signature: ModelSignature,
  batch: Pick<Batch, 'rows' | 'joined'>,
  name: string,
): readonly (readonly number[])[] | undefined {
  const declared = signature.inputs.find((input) => input.name === name);
  const joined = batch.joined.find((input) => input.name === name);
  if (declared === undefined || joined === undefined) return undefined;
  const batching = signature.maxBatchSize > 0;
  const own =
    joined.shapes ??
    (batching ? batch.rows.map((count) => [count, ...joined.shape.slice(1)]) : batch.rows.map(() => joined.shape));
  return own.map((shape) => modelShape(declared, shape, batching));
}
