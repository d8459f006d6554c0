import type { EnsembleStep } from './ensemble.ts';
import { DataType, type ModelConfig, type ModelInput, type ModelOutput } from './gen/model_config_pb.ts';

/** What is known of a tensor of an ensemble from the first that names it. */
interface EnsembleTensor {
  readonly model: string;
  readonly dataType: DataType;
  /** Without the batch dimension; -1 is variable. */
  readonly dims: readonly bigint[];
  /** With the batch dimension, where the model has one. */
  readonly fullDims: readonly bigint[];
}

/**
 * What each tensor of an ensemble is, told by whoever names it, and whether all agree on it
 * (core/src/ensemble_utils.cc, ValidateTensorMapping and ValidateTensorConsistency).
 */
export interface EnsembleTensors {
  /** Why the step does not fit its model's config or the tensors so far, in Triton's words; undefined where it does. */
  add(step: EnsembleStep, model: ModelConfig): string | undefined;
}

export function createEnsembleTensors(ensemble: ModelConfig): EnsembleTensors {
  const { name } = ensemble;
  const tensors = new Map<string, EnsembleTensor>();
  for (const io of [...ensemble.input, ...ensemble.output]) {
    // The steps see it as it is after the ensemble's own reshape.
    const seen = tensorOf(ensemble, io, io.reshape?.shape ?? io.dims);
    if (!tensors.has(io.name)) tensors.set(io.name, seen);
  }

  const agree = (tensor: string, model: ModelConfig, io: ModelInput | ModelOutput): string | undefined => {
    const told = tensorOf(model, io, io.dims);
    const known = tensors.get(tensor);
    if (known === undefined) tensors.set(tensor, told);
    const difference = known === undefined ? undefined : differenceOf(known, told);
    return difference === undefined ? undefined : `in ensemble ${name}, ensemble tensor ${tensor}: ${difference}`;
  };

  const addInputs = ({ inputs }: EnsembleStep, model: ModelConfig): string | undefined => {
    const unknown = inputs.find((mapping) => !model.input.some((io) => io.name === mapping.name));
    if (unknown !== undefined) {
      const text = `in ensemble ${name}, ensemble tensor ${unknown.tensor} is mapping to non-existing input`;
      return `${text} ${unknown.name} in model ${model.name}`;
    }
    for (const io of model.input) {
      const mapping = inputs.find((each) => each.name === io.name);
      if (mapping !== undefined) {
        const problem = agree(mapping.tensor, model, io);
        if (problem !== undefined) return problem;
      } else if (!io.optional) {
        return `in ensemble ${name}, input ${io.name} in model ${model.name} is not mapped to any ensemble tensors`;
      }
    }
    return undefined;
  };

  const addOutputs = ({ outputs }: EnsembleStep, model: ModelConfig): string | undefined => {
    for (const mapping of outputs) {
      const io = model.output.find((each) => each.name === mapping.name);
      if (io === undefined) {
        const text = `in ensemble ${name}, ensemble tensor ${mapping.tensor} is mapped from non-existing output`;
        return `${text} ${mapping.name} in model ${model.name}`;
      }
      const problem = agree(mapping.tensor, model, io);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };

  return { add: (step, model) => addInputs(step, model) ?? addOutputs(step, model) };
}

function tensorOf(model: ModelConfig, io: ModelInput | ModelOutput, dims: readonly bigint[]): EnsembleTensor {
  return {
    model: model.name,
    dataType: io.dataType,
    dims,
    fullDims: model.maxBatchSize > 0 ? [-1n, ...dims] : dims,
  };
}

/**
 * A variable dimension agrees with any, and what comes is checked as it comes. A model without batches may take and give
 * the batch dimension as a dimension of its own.
 */
function differenceOf(known: EnsembleTensor, told: EnsembleTensor): string | undefined {
  const inferred = (a: string, b: string) =>
    `${a} is inferred from model ${known.model} while ${b} is inferred from model ${told.model}`;
  if (known.dataType !== told.dataType) {
    return `inconsistent data type: ${inferred(typeName(known.dataType), typeName(told.dataType))}`;
  }
  if (fits(known.dims, told.dims) || fits(known.fullDims, told.fullDims)) return undefined;
  return `inconsistent shape: ${inferred(`[${known.fullDims.join(',')}]`, `[${told.fullDims.join(',')}]`)}`;
}

function typeName(dataType: DataType): string {
  return DataType[dataType] ?? String(dataType);
}

function fits(a: readonly bigint[], b: readonly bigint[]): boolean {
  return a.length === b.length && a.every((dim, axis) => dim === b[axis] || dim === -1n || b[axis] === -1n);
}
