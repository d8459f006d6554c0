import type { ModelLookups } from '@nereid/caller';
import { ensembleInput, ensembleOutputShape, type ModelSignature, stepInputShape } from '@nereid/config';
import type { CarriedTensor } from '@nereid/protocol';

/** Gives an ensemble's tensors the shapes in which those see them that they go to (config/ensemble-shapes). */
export interface EnsembleTensors {
  /** An input of a request. */
  input(tensor: CarriedTensor): CarriedTensor;
  /** A tensor of the run, as the input of a step's model by that name. */
  stepInput(step: number, name: string, tensor: CarriedTensor): CarriedTensor;
  /** A tensor of the run, as the output of its name. Throws INTERNAL for a shape that none of its reshape gives. */
  output(tensor: CarriedTensor): CarriedTensor;
}

export function createEnsembleTensors(signature: ModelSignature, models: Pick<ModelLookups, 'find'>): EnsembleTensors {
  const { steps } = signature.ensemble ?? { steps: [] };
  /** The step that gives each tensor which is no input of the ensemble. */
  const givers = new Map(steps.flatMap((step) => step.outputs.map(({ tensor }) => [tensor, step] as const)));

  const modelOf = (step: (typeof steps)[number] | undefined): ModelSignature | undefined => {
    const found = step === undefined ? undefined : models.find(step.model, step.version);
    return found?.ok === true ? found.signature : undefined;
  };

  const composed = (name: string, { shape }: CarriedTensor) => {
    const giver = givers.get(name);
    return { shape, batched: ((giver === undefined ? signature : modelOf(giver))?.maxBatchSize ?? 0) > 0 };
  };

  const shaped = (tensor: CarriedTensor, shape: readonly number[]) =>
    shape === tensor.shape ? tensor : { ...tensor, shape };

  return {
    input(tensor) {
      const input = signature.inputs.find(({ name }) => name === tensor.name);
      return input === undefined ? tensor : shaped(tensor, ensembleInput(signature, input, tensor.shape).shape);
    },
    stepInput(index, name, tensor) {
      const step = steps[index];
      const model = modelOf(step);
      const input = model?.inputs.find((each) => each.name === name);
      const mapped = step?.inputs.find((each) => each.name === name)?.tensor;
      if (model === undefined || input === undefined || mapped === undefined) return tensor;
      return shaped(tensor, stepInputShape(composed(mapped, tensor), model, input));
    },
    output(tensor) {
      const output = signature.outputs.find(({ name }) => name === tensor.name);
      if (output === undefined) return tensor;
      return shaped(tensor, ensembleOutputShape(composed(tensor.name, tensor), signature, output));
    },
  };
}
