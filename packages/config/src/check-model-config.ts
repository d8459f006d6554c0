import { checkBatchIo } from './check-batch-io.ts';
import { dynamicBatchingChecks } from './check-dynamic-batching.ts';
import { ensembleChecks } from './check-ensemble.ts';
import { instanceGroupChecks } from './check-instance-groups.ts';
import { modelMetricsChecks } from './check-model-metrics.ts';
import { onnxSettingsChecks } from './check-onnx-settings.ts';
import { sequenceBatchingChecks } from './check-sequence-batching.ts';
import { tensorChecks } from './check-tensor-config.ts';
import { platformFits } from './complete-backend.ts';
import { isEnsemble } from './complete-model-config.ts';
import { type ConfigCheck, refuseField } from './config-fault.ts';
import { checkBulk, checkEagerBatch, checkJobBytesMax, checkOwnParameters } from './config-parameters.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { carrierSettings } from './instance-carrier.ts';
import { checkJournal } from './journal-rule.ts';
import { checkPlacement } from './placement-rule.ts';

export interface CheckOptions {
  /** The model's directory name. */
  readonly name: string;
  /** GPUs that can be used, numbered from 0; undefined where each worker sees whether it has those asked for. */
  readonly gpus: number | undefined;
  /** Inputs and outputs are left out: they may still be completed from the model's file. */
  readonly withoutTensors?: boolean;
  /** Instance groups are left out: in Triton what is wrong with them fails the load, not the poll. */
  readonly withoutInstances?: boolean;
}

/**
 * Refuses a completed config that cannot be served (core/src/model_config_utils.cc,
 * ValidateModelConfig, ValidateModelIOConfig and ValidateInstanceGroup). Throws INVALID_ARG for the
 * first rule broken, naming model and field. Fields without a rule here are kept as they are.
 */
export function checkModelConfig(config: ModelConfig, options: CheckOptions): void {
  for (const check of modelConfigChecks(config, options)) check();
}

/** The same as rules apart, for who wants to know all that are broken. */
export function modelConfigChecks(config: ModelConfig, options: CheckOptions): ConfigCheck[] {
  const withTensors = options.withoutTensors !== true;
  const withInstances = options.withoutInstances !== true && !isEnsemble(config);
  return [
    () => checkName(config, options.name),
    () => checkBackend(config),
    () => checkBatchSize(config),
    ...(withTensors ? [...tensorChecks(config), () => checkBatchIo(config)] : []),
    ...schedulingChecks(config),
    () => checkCache(config),
    ...(isEnsemble(config) ? ensembleChecks(config) : []),
    ...(withInstances ? instanceGroupChecks(config, options.gpus) : []),
    ...modelMetricsChecks(config),
    ...onnxSettingsChecks(config),
    () => checkOwnParameters(config),
    () => carrierSettings(config),
    () => checkEagerBatch(config),
    () => checkBulk(config),
    () => checkJournal(config, !withTensors),
    () => checkJobBytesMax(config),
    () => checkPlacement(config),
  ];
}

/** Triton's text for a model of many answers that are to be cached. */
export function cachesDecoupled(name: string): string {
  const text = `Response Cache does not currently support model ${name} with 'decoupled' transaction policy.`;
  return `${text} Please disable the response cache.`;
}

function checkName({ name }: ModelConfig, directory: string): void {
  if (name === directory) return;
  const text = `unexpected directory name '${directory}' for model '${name}', directory name must equal model name`;
  refuseField('name', text);
}

function checkBackend(config: ModelConfig): void {
  const { name, backend, platform } = config;
  if (backend === '' && !isEnsemble(config)) {
    if (platform === '') refuseField('backend', `must specify 'platform' or 'backend' for '${name}'`);
    refuseField('platform', `unexpected platform type '${platform}' for ${name}`);
  }
  if (backend !== '' && platform === 'ensemble') {
    refuseField('backend', `Ensemble model '${name}' must have platform type 'ensemble' and empty backend type`);
  }
  if (backend !== '' && !platformFits(backend, platform)) {
    refuseField('platform', `unexpected 'platform' and 'backend' pair, got:${platform}, ${backend} for ${name}`);
  }
}

function checkBatchSize({ name, maxBatchSize }: ModelConfig): void {
  if (maxBatchSize >= 0) return;
  refuseField('max_batch_size', `'max_batch_size' must be non-negative value for ${name}, got ${maxBatchSize}`);
}

function schedulingChecks(config: ModelConfig): ConfigCheck[] {
  const { schedulingChoice: choice } = config;
  if (choice.case === 'dynamicBatching') return dynamicBatchingChecks(config, choice.value);
  return choice.case === 'sequenceBatching' ? sequenceBatchingChecks(config, choice.value) : [];
}

function checkCache({ name, responseCache, modelTransactionPolicy }: ModelConfig): void {
  if (responseCache?.enable !== true || modelTransactionPolicy?.decoupled !== true) return;
  refuseField('response_cache', cachesDecoupled(name));
}
