import type { ModelFound } from '@nereid/caller';
import { classifyOutputs, errorInfo, type Outcome, type RequestedOutput } from '@nereid/protocol';

/**
 * An outcome with what its request asks of single outputs done to them, for every door: classes in
 * place of values. The outcome itself where nothing is asked; a failure where an output has no such
 * form. The outputs keep the order in which the model gave them. `model` is the one that the request
 * was checked against.
 */
export function answerOutputs(
  outcome: Outcome,
  requested: readonly RequestedOutput[],
  model: Pick<ModelFound, 'record' | 'signature'>,
): Outcome {
  if (!outcome.ok || !requested.some(asksMore)) return outcome;
  try {
    const { record, signature } = model;
    const classified = { batching: signature.maxBatchSize > 0, labels: record.labels };
    return { ok: true, response: classifyOutputs(outcome.response, requested, classified) };
  } catch (thrown) {
    return { ok: false, error: errorInfo(thrown) };
  }
}

/** More than being there in a form of its own. */
function asksMore({ classification }: RequestedOutput): boolean {
  return classification > 0;
}
