import type { ModelConfig, ModelEnsembling_Step } from './gen/model_config_pb.ts';

/** Which tensor of the ensemble a step's model takes as an input, or gives as an output. */
export interface EnsembleMapping {
  /** The composing model's name of it. */
  readonly name: string;
  /** The ensemble's name of it. */
  readonly tensor: string;
}

export interface EnsembleStep {
  readonly model: string;
  /** '' for the greatest version that is ready when the step is called. */
  readonly version: string;
  readonly inputs: readonly EnsembleMapping[];
  readonly outputs: readonly EnsembleMapping[];
}

export interface EnsembleSignature {
  /** As the config lists them; what runs when is for the tensors to say. */
  readonly steps: readonly EnsembleStep[];
  /** Calls of one step that may be in flight over all requests of the ensemble; 0 is no bound. */
  readonly maxInflight: number;
}

/** The graph of an ensemble, undefined for any other model. */
export function ensembleSignature({ schedulingChoice: choice }: ModelConfig): EnsembleSignature | undefined {
  if (choice.case !== 'ensembleScheduling') return undefined;
  return { steps: choice.value.step.map(ensembleStep), maxInflight: choice.value.maxInflightRequests };
}

/** The models that an ensemble's steps name, each once, in the order of the steps; none for any other model. */
export function ensembleModels(config: ModelConfig): readonly string[] {
  return [...new Set(ensembleSignature(config)?.steps.map(({ model }) => model))];
}

function ensembleStep({ modelName, modelVersion, inputMap, outputMap }: ModelEnsembling_Step): EnsembleStep {
  return {
    model: modelName,
    version: modelVersion === -1n ? '' : modelVersion.toString(),
    inputs: mappings(inputMap),
    outputs: mappings(outputMap),
  };
}

function mappings(map: Readonly<Record<string, string>>): EnsembleMapping[] {
  return Object.entries(map).map(([name, tensor]) => ({ name, tensor }));
}
