import type { InputSignature, ModelSignature } from '@nereid/config';
import type { Datatype } from '@nereid/protocol';
import { hasJsonForm } from './openapi-schemas.ts';

/** A tensor larger than this has no example: the page would be all numbers. */
const EXAMPLE_ELEMENTS_MAX = 4_096;

/** Shape of a tensor as clients send it: a batch dimension, if any, and 1 for every dimension of any size. */
function exampleShape({ maxBatchSize }: ModelSignature, { dims }: InputSignature): readonly number[] {
  return [...(maxBatchSize > 0 ? [1] : []), ...dims.map((dim) => (dim === -1 ? 1 : dim))];
}

/** Small numbers that differ, so that an answer shows what became of each. */
function exampleElement(datatype: Datatype, index: number): unknown {
  switch (datatype) {
    case 'BOOL':
      return index % 2 === 0;
    case 'BYTES':
      return index === 0 ? 'text' : `text ${index}`;
    case 'FP32':
    case 'FP64':
      return (index % 8) + 0.5;
    default:
      return index % 8;
  }
}

/** The inputs of an example: those that must be given, or where none must the first. */
function exampleInputs({ inputs }: ModelSignature): readonly InputSignature[] {
  const required = inputs.filter(({ optional }) => !optional);
  return required.length > 0 ? required : inputs.slice(0, 1);
}

/** An infer request that the model takes, as JSON; undefined where an input has no form in JSON, or is very large. */
export function inferExample(signature: ModelSignature): unknown {
  const inputs = exampleInputs(signature);
  if (!inputs.every(({ datatype }) => hasJsonForm(datatype))) return undefined;
  const tensors = inputs.map((input) => ({ input, shape: exampleShape(signature, input) }));
  const counts = tensors.map(({ shape }) => shape.reduce((product, dim) => product * dim, 1));
  if (counts.some((count) => count > EXAMPLE_ELEMENTS_MAX)) return undefined;
  return {
    inputs: tensors.map(({ input: { name, datatype }, shape }, place) => ({
      name,
      datatype,
      shape,
      data: Array.from({ length: counts[place] ?? 0 }, (_, index) => exampleElement(datatype, index)),
    })),
    ...(signature.outputs.every(({ datatype }) => hasJsonForm(datatype))
      ? {}
      : { parameters: { binary_data_output: true } }),
  };
}

/** A generate request that the model takes. */
export function generateExample(signature: ModelSignature): unknown {
  const members = exampleInputs(signature).map((input) => {
    const count = exampleShape(signature, input).reduce((product, dim) => product * dim, 1);
    const elements = Array.from({ length: count }, (_, index) => exampleElement(input.datatype, index));
    return [input.name, count === 1 ? elements[0] : elements] as const;
  });
  return Object.fromEntries(members);
}
