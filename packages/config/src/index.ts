export { promotedAlias, replacedAlias, rolledBackAlias } from './alias-changes.ts';
export {
  ALIASES_VALUE,
  type Alias,
  type AliasShadow,
  type AliasTable,
  type AliasVersion,
  decodeAliases,
  encodeAliases,
  readAlias,
} from './aliases.ts';
export { BAD_OPTION, badOption } from './bad-option.ts';
export { cachesAnswers } from './caches-answers.ts';
export { checkEnsembleModels, ensembleCircle, type FindModel, isDecoupledEnsemble } from './check-ensemble-models.ts';
export { missingGpus } from './check-instance-groups.ts';
export { checkJob } from './check-job.ts';
export { checkRequest } from './check-request.ts';
export { completeEnsemble } from './complete-ensemble.ts';
export { resolveInstances } from './complete-model-config.ts';
export type { ConfigFinding } from './config-finding.ts';
export { type BulkRule, bulkRule, closesEarly } from './config-parameters.ts';
export type { ConfigText } from './config-positions.ts';
export {
  DESIRED_VALUE,
  type DesiredModel,
  type DesiredState,
  decodeDesiredState,
  encodeDesiredState,
  type RepositorySetup,
  setupDifference,
} from './desired-state.ts';
export { type EnsembleMapping, type EnsembleSignature, type EnsembleStep, ensembleModels } from './ensemble.ts';
export { ensembleReadiness } from './ensemble-readiness.ts';
export { type ComposedTensor, ensembleInput, ensembleOutputShape, stepInputShape } from './ensemble-shapes.ts';
export { type ExpandedInstance, expandInstances, instanceGpu, isRateLimited } from './expand-instances.ts';
export { flagsHelp, flagsMarkdown } from './flag-docs.ts';
export type { FlagRole } from './flag-meta.ts';
export type { ModelConfig } from './gen/model_config_pb.ts';
export * as pb from './gen/model_config_pb.ts';
export { isIgnoredName } from './ignored-names.ts';
export { type CarrierKind, type CarrierSettings, carrierKind, carrierSettings } from './instance-carrier.ts';
export { type JournalRule, journalRule } from './journal-rule.ts';
export { LABELS_FORM, type Labels, labelsText, missingLabels, readLabelPairs } from './labels.ts';
export { LIMITS, type LimitName, limitsMarkdown } from './limits.ts';
export { bytesByDevice, instancesByDevice, versionBytes } from './model-bytes.ts';
export { decodeModelConfig, encodeModelConfig, modelConfigJson } from './model-config-json.ts';
export { modelVersions } from './model-folder.ts';
export type { ModelRecord, RetiringLoad, VersionRecord } from './model-record.ts';
export {
  type BatchInputKind,
  type BatchInputSignature,
  type BatchOutputSignature,
  type InputSignature,
  type ModelSignature,
  modelSignature,
  type TensorSignature,
} from './model-signature.ts';
export {
  backendSettings,
  DEFAULTS,
  JOBS_FSYNC,
  type JobsFsync,
  metricsAddress,
  type Options,
  TIME_SCALE_MAX,
  TIME_SCALE_MIN,
} from './options.ts';
export {
  CACHE_ANSWER_MS_MAX,
  CACHE_TTL_S_MAX,
  type CacheConfig,
  type CacheRedis,
  readCacheConfig,
} from './options-cache.ts';
export { GRPC_COMPRESSION_LEVELS, GRPC_DEFAULTS } from './options-grpc.ts';
export { HOST_POLICY_FORM, type HostPolicy, type MallocName, readCores, readHostPolicies } from './options-hardware.ts';
export { isWebhookSecret } from './options-jobs.ts';
export {
  JOURNAL_DEFAULTS,
  JOURNAL_KEYS,
  JOURNAL_LEAST,
  type JournalConfig,
  type JournalLimits,
  journalConfig,
  readJournalConfig,
} from './options-journal.ts';
export { type OptionSources, type ParsedOptions, parseOptions } from './options-parse.ts';
export { memoryBudget, PLACEMENTS, type PlacementMode, workerLabels } from './options-placement.ts';
export { type ResourceLimit, resourceLimits } from './options-rate.ts';
export { MODEL_LOAD_RETRIES_MAX, REPOSITORY_POLL_SECS, REPOSITORY_POLL_SECS_MAX } from './options-repository.ts';
export { readTraceConfig } from './options-trace.ts';
export { decodeOverride, encodeOverride, type OverrideRef, overrideUploads } from './override-ref.ts';
export { parseModelConfig } from './parse-model-config.ts';
export { parseModelConfigJson } from './parse-model-config-json.ts';
export { type PlacementRule, placementRule } from './placement-rule.ts';
export { inspectModel, LOAD_FAILED, type ModelSource, type ReadModelOptions, readModel } from './read-model.ts';
export { hasHashTag } from './redis-hash-tag.ts';
export { folderNames, isFolder, listModels, type RepositoryEntry } from './repository.ts';
export {
  CONTROL_MODES,
  type ControlMode,
  decodeRepositoryList,
  encodeRepositoryList,
  REPOSITORY_VALUE,
  type RepositoryFolder,
  type RepositoryList,
} from './repository-list.ts';
export { compareVersions } from './select-versions.ts';
export {
  type ControlKind,
  type ControlSignature,
  type InitialStateSignature,
  type SequenceSignature,
  type StateSignature,
  sequenceSignature,
} from './sequence-signature.ts';
export { differsInInstances, instanceChanges, sourceChange } from './source-change.ts';
export { NO_TRACES, TRACE_LEVELS, TRACE_RANGES, type TraceConfig, type TraceLevel } from './trace-config.ts';
export { unsupportedReason, unsupportedScheduling } from './unsupported-reason.ts';
export { type WarmupInput, type WarmupSample, warmupSamples } from './warmup.ts';
