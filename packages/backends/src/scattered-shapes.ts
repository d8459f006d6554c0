import type { BatchOutputSignature, ModelSignature, TensorSignature } from '@nereid/config';
import { clientShape } from '@nereid/config/reshape.js';
import type { Batch } from './backend.ts';
import { requestShapes } from './request-shapes.ts';

/**
 * What each request gets of an output over the whole batch (model_config.proto, BatchOutput,
 * BATCH_SCATTER_WITH_INPUT_SHAPE; backend_output_responder.cc): the output's shape with the source's
 * dimensions in place of its variable ones, position by position and as the model sees both. The
 * shapes are the clients'. undefined where no request has the source.
 */
export function scatteredShapes(
  signature: ModelSignature,
  batch: Pick<Batch, 'rows' | 'joined'>,
  output: TensorSignature,
  { source }: BatchOutputSignature,
): readonly (readonly number[])[] | undefined {
  const batching = signature.maxBatchSize > 0;
  const dims = output.reshape ?? output.dims;
  const full = batching ? [-1, ...dims] : dims;
  return requestShapes(signature, batch, source)?.map((shape) =>
    clientShape(
      output,
      full.map((dim, axis) => (dim === -1 ? (shape[axis] ?? 1) : dim)),
      batching,
    ),
  );
}
