import type { InputSignature, ModelSignature } from '@nereid/config';
import type { CarriedRequest } from '@nereid/protocol';

/**
 * A text that is equal for requests which may share a batch; '' where any may (scheduler_utils.cc).
 * Compared are the shapes, without the batch dimension, of inputs that have a variable dimension
 * and are not ragged. A model with optional inputs batches only requests with the same inputs. Contents
 * would count for shape tensors, which no platform served here has: a config with one is refused.
 */
export function batchShapeKey(signature: ModelSignature, request: CarriedRequest): string {
  const { inputs } = signature;
  const compareSets = inputs.some((input) => input.optional);
  let key = '';
  for (let index = 0; index < inputs.length; index++) {
    const input = inputs[index];
    if (input === undefined) continue;
    const variable = !input.ragged && isVariable(input);
    if (!variable && !compareSets) continue;
    const tensor = request.inputs.find((candidate) => candidate.name === input.name);
    if (tensor === undefined) continue;
    // The position and not the name: names are free to hold any character.
    key += `${index}:`;
    if (variable) key += (signature.maxBatchSize > 0 ? tensor.shape.slice(1) : tensor.shape).join(',');
    key += ';';
  }
  return key;
}

function isVariable(input: InputSignature): boolean {
  for (const dimension of input.dims) if (dimension < 0) return true;
  return false;
}
