import type { BackendInstance, Batch, BatchResult, JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { elementCount, NereidError } from '@nereid/protocol';

/** One execution, whose result can be told to its requests. Throws what the backend throws, else INTERNAL. */
export async function checkedExecute(
  signature: ModelSignature,
  instance: BackendInstance,
  batch: Batch,
): Promise<BatchResult> {
  const result = await instance.execute(batch);
  if (result.kind === 'each' && result.outcomes.length !== batch.rows.length) {
    const text = `model '${signature.name}' gave ${result.outcomes.length} outcomes for ${batch.rows.length} requests`;
    throw new NereidError('INTERNAL', text);
  }
  if (result.kind === 'joined') for (const output of result.outputs) checkParts(signature, output, batch.rows);
  return result;
}

/** Throws INTERNAL where an output cannot be split among the requests. */
function checkParts(signature: ModelSignature, output: JoinedTensor, rows: readonly number[]): void {
  const { shape, shapes } = output;
  if (shapes === undefined && signature.maxBatchSize === 0) return;
  let total = 0;
  if (shapes === undefined) for (const count of rows) total += count;
  else for (const own of shapes) total += elementCount(own) ?? 0;
  if (shape[0] === total) return;
  const what = `output '${output.name}' of model '${signature.name}' has`;
  throw new NereidError(
    'INTERNAL',
    shapes === undefined
      ? `${what} shape [${shape.join(',')}] for a batch of ${total} rows`
      : `${what} ${shape[0]} elements for a batch whose requests are to get ${total} by its batch_output`,
  );
}
