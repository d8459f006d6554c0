import { NereidError } from '@nereid/protocol';
import { checkBatchIo } from './check-batch-io.ts';
import { checkEnsemble } from './check-ensemble.ts';
import { checkSequenceBatching } from './check-sequence-batching.ts';
import { checkTensors } from './check-tensor-config.ts';
import { platformFits } from './complete-backend.ts';
import { isEnsemble } from './complete-model-config.ts';
import { checkBulk, checkEagerBatch, checkJobBytesMax, checkOwnParameters } from './config-parameters.ts';
import {
  ModelInstanceGroup_Kind as Kind,
  type ModelConfig,
  type ModelDynamicBatching,
  type ModelInstanceGroup,
  type ModelQueuePolicy,
  ModelQueuePolicy_TimeoutAction as TimeoutAction,
} from './gen/model_config_pb.ts';
import { carrierSettings } from './instance-carrier.ts';
import { checkJournal } from './journal-rule.ts';
import { LIMITS } from './limits.ts';
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
  const { name } = config;
  if (name !== options.name) {
    refuse(
      'name',
      `unexpected directory name '${options.name}' for model '${name}', directory name must equal model name`,
    );
  }
  if (config.backend === '' && config.platform === '' && !isEnsemble(config))
    refuse('backend', `must specify 'platform' or 'backend' for '${name}'`);
  if (config.backend === '' && !isEnsemble(config)) {
    refuse('platform', `unexpected platform type '${config.platform}' for ${name}`);
  }
  if (config.backend !== '' && config.platform === 'ensemble') {
    refuse('backend', `Ensemble model '${name}' must have platform type 'ensemble' and empty backend type`);
  }
  if (config.backend !== '' && !platformFits(config.backend, config.platform)) {
    refuse(
      'platform',
      `unexpected 'platform' and 'backend' pair, got:${config.platform}, ${config.backend} for ${name}`,
    );
  }
  if (config.maxBatchSize < 0) {
    refuse('max_batch_size', `'max_batch_size' must be non-negative value for ${name}, got ${config.maxBatchSize}`);
  }
  if (options.withoutTensors !== true) {
    checkTensors(config);
    checkBatchIo(config);
  }
  if (config.schedulingChoice.case === 'dynamicBatching') checkDynamicBatching(config, config.schedulingChoice.value);
  if (config.schedulingChoice.case === 'sequenceBatching') checkSequenceBatching(config, config.schedulingChoice.value);
  if (config.modelTransactionPolicy?.decoupled === true && config.responseCache?.enable === true) {
    refuse('response_cache', cachesDecoupled(name));
  }
  if (isEnsemble(config)) checkEnsemble(config);
  else if (options.withoutInstances !== true) checkInstanceGroups(config, options.gpus);
  checkOwnParameters(config);
  carrierSettings(config);
  checkEagerBatch(config);
  checkBulk(config);
  checkJournal(config, options.withoutTensors === true);
  checkJobBytesMax(config);
  checkPlacement(config);
}

/** Triton's text for a model of many answers that are to be cached. */
export function cachesDecoupled(name: string): string {
  const text = `Response Cache does not currently support model ${name} with 'decoupled' transaction policy.`;
  return `${text} Please disable the response cache.`;
}

function refuse(field: string, text: string): never {
  throw new NereidError('INVALID_ARG', text, { field });
}

function checkDynamicBatching(config: ModelConfig, batching: ModelDynamicBatching): void {
  const { name, maxBatchSize } = config;
  for (const size of batching.preferredBatchSize) {
    if (size <= 0) {
      refuse('preferred_batch_size', `dynamic batching preferred size must be positive for ${name}, got ${size}`);
    }
    if (size > maxBatchSize) {
      const got = `got ${size} with max_batch_size ${maxBatchSize}`;
      refuse('preferred_batch_size', `dynamic batching preferred size must be <= max batch size for ${name}, ${got}`);
    }
  }
  const levels = batching.priorityLevels;
  if (levels !== 0n) {
    if (batching.defaultPriorityLevel < 1n || batching.defaultPriorityLevel > levels) {
      const got = `got ${batching.defaultPriorityLevel}`;
      refuse('default_priority_level', `default priority level must be in range [1, ${levels}] for ${name}, ${got}`);
    }
    for (const key of Object.keys(batching.priorityQueuePolicy)) {
      if (BigInt(key) >= 1n && BigInt(key) <= levels) continue;
      const text = `priority queue policy must have priority level in range [1, ${levels}] for ${name}, got ${key}`;
      refuse('priority_queue_policy', text);
    }
  }
  if (batching.preserveOrdering) checkPreserveOrdering(name, batching);
}

function checkPreserveOrdering(name: string, batching: ModelDynamicBatching): void {
  if (batching.priorityLevels > 1n) {
    const text = `Only one priority level is allowed when 'preserve_ordering' is true for ${name}`;
    refuse('priority_levels', text);
  }
  const delays = (policy: ModelQueuePolicy | undefined) =>
    policy !== undefined && policy.defaultTimeoutMicroseconds !== 0n && policy.timeoutAction === TimeoutAction.DELAY;
  if (delays(batching.defaultQueuePolicy) || Object.values(batching.priorityQueuePolicy).some(delays)) {
    const text = `Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for ${name}`;
    refuse('timeout_action', text);
  }
}

/** Why a machine of so many GPUs cannot hold the instances of a normalised config; undefined where it can. */
export function missingGpus(config: ModelConfig, gpus: number): string | undefined {
  for (const group of config.instanceGroup) {
    const missing = missingGpu(config, group, gpus);
    if (missing !== undefined) return missing.text;
  }
  return undefined;
}

function missingGpu(config: ModelConfig, group: ModelInstanceGroup, gpus: number) {
  const what = `instance group ${group.name} of model ${config.name}`;
  if (group.kind === Kind.GPU && gpus === 0 && group.gpus.length === 0) {
    const text = `${what} has kind KIND_GPU but no GPUs are available; use KIND_CPU, or KIND_AUTO for either`;
    return { field: 'kind', text };
  }
  const wrong = group.gpus.find((id) => id < 0 || id >= gpus);
  if (wrong === undefined) return undefined;
  const ids = Array.from({ length: gpus }, (_, id) => id).join(', ') || 'none';
  const text = `${what} specifies invalid or unsupported gpu id ${wrong}. The GPUs of this machine are: ${ids}`;
  return { field: 'gpus', text };
}

function checkInstanceGroups(config: ModelConfig, gpus: number | undefined): void {
  if (config.instanceGroup.length === 0) {
    refuse('instance_group', `must specify one or more 'instance group's for ${config.name}`);
  }
  let instances = 0;
  for (const group of config.instanceGroup) {
    checkGroup(config, group, gpus);
    instances += Math.max(1, group.count) * Math.max(1, group.gpus.length);
  }
  if (instances > LIMITS.instances_per_model_max) {
    const text = `the instance groups of model ${config.name} ask for ${instances} instances, more than`;
    refuse('count', `${text} ${LIMITS.instances_per_model_max}`);
  }
}

function checkGroup(config: ModelConfig, group: ModelInstanceGroup, gpus: number | undefined): void {
  const what = `instance group ${group.name} of model ${config.name}`;
  const mayHaveGpus = group.kind === Kind.GPU || (group.kind === Kind.AUTO && gpus === undefined);
  if (!mayHaveGpus && group.gpus.length > 0) {
    refuse('gpus', `${what} has kind KIND_${Kind[group.kind]} but specifies one or more GPUs`);
  }
  const missing = gpus === undefined ? undefined : missingGpu(config, group, gpus);
  if (missing !== undefined) refuse(missing.field, missing.text);
  const negative = group.gpus.find((id) => id < 0);
  if (negative !== undefined) refuse('gpus', `${what} specifies invalid or unsupported gpu id ${negative}`);
  if (group.profile.length > 0 && config.platform !== 'tensorrt_plan') {
    const text = `and platform ${config.platform} specifies profile field which is only supported for TensorRT models`;
    refuse('profile', `${what} ${text}`);
  }
}
