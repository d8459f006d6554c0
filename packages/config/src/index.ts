export { type CheckOptions, checkModelConfig } from './check-model-config.ts';
export { checkRequest } from './check-request.ts';
export { type CompleteOptions, completeModelConfig } from './complete-model-config.ts';
export { type ExpandedInstance, expandInstances } from './expand-instances.ts';
export { flagsHelp, flagsMarkdown } from './flag-docs.ts';
export { nearestName } from './flag-nearest.ts';
export type { ModelConfig } from './gen/model_config_pb.ts';
export * as pb from './gen/model_config_pb.ts';
export { LIMITS, type LimitName, limitsMarkdown } from './limits.ts';
export { decodeModelConfig, encodeModelConfig, modelConfigJson } from './model-config-json.ts';
export type { ModelRecord, VersionRecord } from './model-record.ts';
export {
  type InputSignature,
  type ModelSignature,
  modelSignature,
  protocolDatatype,
  type TensorSignature,
} from './model-signature.ts';
export { backendSettings, type Options } from './options.ts';
export { type OptionSources, type ParsedOptions, parseOptions } from './options-parse.ts';
export { parseModelConfig } from './parse-model-config.ts';
export { LOAD_FAILED, type ModelSource, modelVersions, type ReadModelOptions, readModel } from './read-model.ts';
export { listModels, type RepositoryEntry } from './repository.ts';
export { compareVersions, isVersionName, selectVersions } from './select-versions.ts';
export { unsupportedReason } from './unsupported-reason.ts';
