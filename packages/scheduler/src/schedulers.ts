import { LIMITS, type ModelConfig } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import type { QueuedRequest, Scheduler } from './schedule.ts';

export interface SchedulerOptions {
  /** Requests that may wait where the config sets no max_queue_size. */
  readonly queue_max: number;
}

/** True where requests may share an execution. */
export function batchesDynamically(config: ModelConfig): boolean {
  return config.schedulingChoice.case === 'dynamicBatching';
}

/**
 * The rule that the model's config asks for.
 * Throws UNSUPPORTED, naming the field, for what no rule here honours.
 */
export function createScheduler<R extends QueuedRequest = QueuedRequest>(
  config: ModelConfig,
  options: SchedulerOptions = { queue_max: LIMITS.requests_queued_max },
): Scheduler<R> {
  const choice = config.schedulingChoice;
  if (choice.case === undefined) return createDefaultScheduler<R>(options);
  if (choice.case === 'sequenceBatching') throw unsupported(config, 'sequence_batching');
  if (choice.case === 'ensembleScheduling') throw unsupported(config, 'ensemble_scheduling');
  const batching = choice.value;
  const policy = batching.defaultQueuePolicy;
  if (batching.priorityLevels > 0n) throw unsupported(config, 'dynamic_batching.priority_levels');
  if (batching.preserveOrdering) throw unsupported(config, 'dynamic_batching.preserve_ordering');
  if (policy !== undefined && policy.defaultTimeoutMicroseconds > 0n) {
    throw unsupported(config, 'dynamic_batching.default_queue_policy.default_timeout_microseconds');
  }
  return createDynamicScheduler<R>({
    rows_max: Math.max(1, config.maxBatchSize),
    preferred: batching.preferredBatchSize,
    delay_us: Number(batching.maxQueueDelayMicroseconds),
    queue_max: policy?.maxQueueSize || options.queue_max,
  });
}

function unsupported(config: ModelConfig, field: string): NereidError {
  return new NereidError('UNSUPPORTED', `model '${config.name}': ${field} is not supported by this version`, { field });
}
