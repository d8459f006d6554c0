import type { ModelFound } from '@nereid/caller';
import { type ModelConfig, type ModelSignature, resolveInstances, type TensorSignature } from '@nereid/config';

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  /** With the batch dimension; -1 is variable. */
  readonly shape: readonly number[];
}

export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

/**
 * What clients are told of a model. `asked` is the version that the client named: then that one alone
 * is listed, else all that are READY (tritonserver.cc, TRITONSERVER_ServerModelMetadata). The platform
 * falls back to the backend's name (model.cc).
 */
export function modelMetadata(found: ModelFound, asked: string): ModelMetadata {
  const { name: shown, record, signature, version, readyVersions } = found;
  const tensor = ({ name, datatype, dims }: TensorSignature) => {
    return { name, datatype, shape: metadataShape(signature, dims) };
  };
  return {
    name: shown,
    versions: asked === '' ? readyVersions : [version],
    platform: record.config.platform === '' ? record.config.backend : record.config.platform,
    inputs: signature.inputs.map(tensor),
    outputs: signature.outputs.map(tensor),
  };
}

/** A tensor's dimensions as clients are told them: behind the batch dimension where the model batches; -1 is variable. */
export function metadataShape(
  { maxBatchSize }: Pick<ModelSignature, 'maxBatchSize'>,
  dims: readonly number[],
): readonly number[] {
  return maxBatchSize > 0 ? [-1, ...dims] : dims;
}

/** The config as clients see it: with the instances that its workers start, under the name that they ask for. */
export function servedConfig({ name, record: { config, gpus } }: ModelFound): ModelConfig {
  const resolved = resolveInstances(config, gpus ?? 0);
  return name === resolved.name ? resolved : { ...resolved, name };
}
