import { completeModelConfig } from './complete-model-config.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import type { ModelRecord, VersionRecord } from './model-record.ts';
import { parseModelConfig } from './parse-model-config.ts';

/** For tests: one FP32 [4] input and output. */
export const VECTOR =
  'input { name: "I" data_type: TYPE_FP32 dims: 4 } output { name: "O" data_type: TYPE_FP32 dims: 4 } ';

type Pairs = readonly (readonly [name: string, tensor: string])[];

/** For tests: a step in the words of config.pbtxt. */
export function step(model: string, inputs: Pairs, outputs: Pairs, version: bigint = -1n): string {
  const maps = [
    ...inputs.map(([key, value]) => `input_map { key: "${key}" value: "${value}" }`),
    ...outputs.map(([key, value]) => `output_map { key: "${key}" value: "${value}" }`),
  ];
  return `step { model_name: "${model}" model_version: ${version} ${maps.join(' ')} } `;
}

/** For tests: a step from I to O. */
export function throughStep(model: string, version: bigint = -1n): string {
  return step(model, [['I', 'I']], [['O', 'O']], version);
}

/** For tests: a config of these tensors, completed without files. */
export function ensembleConfig(name: string, steps: string, tensors = VECTOR): ModelConfig {
  return modelConfig(name, `platform: "ensemble" ${tensors} ensemble_scheduling { ${steps} }`);
}

export function modelConfig(name: string, text: string): ModelConfig {
  return completeModelConfig(parseModelConfig(text, 'config.pbtxt'), { name, files: undefined, gpus: 0 });
}

/** For tests: what the directory has of a model with version 1 ready, unless other versions are given. */
export function recordOf(
  config: ModelConfig,
  rest: { versions?: readonly VersionRecord[]; labels?: ModelRecord['labels'] } = {},
): ModelRecord {
  const { versions = [{ version: '1', state: 'READY', reason: '' }], labels = {} } = rest;
  return { name: config.name, config, labels, versions, contentHash: '' };
}

/** For tests: what is known of models. */
export function knownModels(...records: readonly ModelRecord[]): (model: string) => ModelRecord | undefined {
  return (model) => records.find(({ name }) => name === model);
}
