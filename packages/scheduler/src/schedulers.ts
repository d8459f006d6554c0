import { closesEarly, isRateLimited, LIMITS, type ModelConfig, unsupportedScheduling } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { BatchStrategy } from './batch-strategy.ts';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import type { ExecutionKind } from './instance-depth.ts';
import { createPassiveScheduler } from './passive-scheduler.ts';
import { isExact, largestSize, queuePolicies } from './queue-policy.ts';
import type { QueuedRequest, Scheduler } from './schedule.ts';

export interface SchedulerOptions<R extends QueuedRequest = QueuedRequest> {
  /** Requests that may wait, all levels together, unless the config allows more in one of them. */
  readonly queue_max: number;
  /** Places of each instance, behind the batch that it runs, for batches that cannot grow any more. */
  readonly places_ahead: number;
  /** The model's own; only dynamic batching asks it. */
  readonly strategy?: BatchStrategy<R> | undefined;
}

/** True where requests may share an execution. */
export function batchesDynamically(config: ModelConfig): boolean {
  return config.schedulingChoice.case === 'dynamicBatching';
}

/** What decides how much an instance may hold of the model; `rate_limit`: `--rate-limit` is on. */
export function executionKind(
  { schedulingChoice: choice, instanceGroup: groups }: ModelConfig,
  { decoupled, rate_limit }: { readonly decoupled: boolean; readonly rate_limit: boolean },
): ExecutionKind {
  if (decoupled) return 'streams';
  if (choice.case === 'dynamicBatching') return isExact(queuePolicies(choice.value)) ? 'exact' : 'batches';
  return rate_limit && groups.some(isRateLimited) ? 'limited' : 'single';
}

/** True where answers go in the order in which their requests were sent out. */
export function preservesOrdering({ schedulingChoice: choice }: ModelConfig): boolean {
  return choice.case === 'dynamicBatching' && choice.value.preserveOrdering;
}

/**
 * The rule that the model's config asks for.
 * Throws UNSUPPORTED, naming the field, for what no rule here honours.
 */
export function createScheduler<R extends QueuedRequest = QueuedRequest>(
  config: ModelConfig,
  options: SchedulerOptions<R> = { queue_max: LIMITS.requests_queued_max, places_ahead: 0 },
): Scheduler<R> {
  const field = unsupportedScheduling(config);
  if (field !== undefined) {
    const text = `model '${config.name}': ${field} is not supported by this version`;
    throw new NereidError('UNSUPPORTED', text, { field });
  }
  if (isPassive(config)) return createPassiveScheduler<R>(config.name);
  const choice = config.schedulingChoice;
  if (choice.case !== 'dynamicBatching') return createDefaultScheduler<R>(options);
  const batching = choice.value;
  const policies = queuePolicies(batching);
  return createDynamicScheduler<R>({
    rows_max: Math.max(1, config.maxBatchSize),
    preferred: preferredSizes(config.maxBatchSize, batching.preferredBatchSize),
    delay_us: Number(batching.maxQueueDelayMicroseconds),
    places_ahead: options.places_ahead,
    // What the config allows is allowed, also where that is more.
    queue_max: Math.max(options.queue_max, largestSize(policies)),
    policies,
    strategy: options.strategy,
    eager: closesEarly(config),
  });
}

function isPassive({ instanceGroup: groups }: ModelConfig): boolean {
  return groups.length > 0 && groups.every(({ passive }) => passive);
}

/** A config without preferred sizes is completed to max_batch_size alone: a batch of that size is full, which nobody preferred. */
function preferredSizes(maxBatchSize: number, sizes: readonly number[]): readonly number[] {
  return sizes.every((size) => size === maxBatchSize) ? [] : sizes;
}
