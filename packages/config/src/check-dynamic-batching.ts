import { type ConfigCheck, mapEntry, refuseField } from './config-fault.ts';
import {
  type ModelConfig,
  type ModelDynamicBatching,
  type ModelQueuePolicy,
  ModelQueuePolicy_TimeoutAction as TimeoutAction,
} from './gen/model_config_pb.ts';

const PATH = 'dynamic_batching';

/** The rules of dynamic_batching (core/src/model_config_utils.cc, ValidateModelConfig). */
export function dynamicBatchingChecks(config: ModelConfig, batching: ModelDynamicBatching): ConfigCheck[] {
  return [
    () => checkPreferred(config, batching),
    () => checkLevels(config, batching),
    () => checkOrdering(config, batching),
  ];
}

function checkPreferred({ name, maxBatchSize }: ModelConfig, { preferredBatchSize }: ModelDynamicBatching): void {
  for (const [index, size] of preferredBatchSize.entries()) {
    const path = `${PATH}.preferred_batch_size[${index}]`;
    if (size <= 0) refuseField(path, `dynamic batching preferred size must be positive for ${name}, got ${size}`);
    if (size > maxBatchSize) {
      const got = `got ${size} with max_batch_size ${maxBatchSize}`;
      refuseField(path, `dynamic batching preferred size must be <= max batch size for ${name}, ${got}`);
    }
  }
}

/** Without levels the other fields have no meaning, and Triton leaves them as they are. */
function checkLevels({ name }: ModelConfig, batching: ModelDynamicBatching): void {
  const { priorityLevels: levels, defaultPriorityLevel: level } = batching;
  if (levels === 0n) return;
  if (level < 1n || level > levels) {
    const text = `default priority level must be in range [1, ${levels}] for ${name}, got ${level}`;
    refuseField(`${PATH}.default_priority_level`, text);
  }
  for (const key of Object.keys(batching.priorityQueuePolicy)) {
    if (BigInt(key) >= 1n && BigInt(key) <= levels) continue;
    const text = `priority queue policy must have priority level in range [1, ${levels}] for ${name}, got ${key}`;
    refuseField(mapEntry(`${PATH}.priority_queue_policy`, key), text);
  }
}

function checkOrdering({ name }: ModelConfig, batching: ModelDynamicBatching): void {
  if (!batching.preserveOrdering) return;
  if (batching.priorityLevels > 1n) {
    const text = `Only one priority level is allowed when 'preserve_ordering' is true for ${name}`;
    refuseField(`${PATH}.priority_levels`, text);
  }
  const policies: [string, ModelQueuePolicy | undefined][] = [
    [`${PATH}.default_queue_policy`, batching.defaultQueuePolicy],
    ...Object.entries(batching.priorityQueuePolicy).map(([key, policy]): [string, ModelQueuePolicy] => [
      mapEntry(`${PATH}.priority_queue_policy`, key),
      policy,
    ]),
  ];
  for (const [path, policy] of policies) {
    if (policy?.timeoutAction !== TimeoutAction.DELAY || policy.defaultTimeoutMicroseconds === 0n) continue;
    const text = `Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for ${name}`;
    refuseField(`${path}.timeout_action`, text);
  }
}
