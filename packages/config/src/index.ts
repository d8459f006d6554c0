export type { ModelConfig } from './gen/model_config_pb.ts';
export * as pb from './gen/model_config_pb.ts';
export { LIMITS, type LimitName, limitsMarkdown } from './limits.ts';
export type { ModelRecord, VersionRecord } from './model-record.ts';
export type { InputSignature, ModelSignature, TensorSignature } from './model-signature.ts';
