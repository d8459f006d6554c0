import {
  bulkRule,
  closesEarly,
  isRateLimited,
  LIMITS,
  type ModelConfig,
  type pb,
  sequenceSignature,
  unsupportedScheduling,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { BatchStrategy } from './batch-strategy.ts';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import type { ExecutionKind } from './instance-depth.ts';
import { createPassiveScheduler } from './passive-scheduler.ts';
import { isExact, largestSize, queuePolicies } from './queue-policy.ts';
import type { QueuedRequest, Scheduler } from './schedule.ts';
import { createDirectSteps } from './sequence-direct.ts';
import { createOldestSteps } from './sequence-oldest.ts';
import { createSequenceScheduler } from './sequence-scheduler.ts';

export interface SchedulerOptions<R extends QueuedRequest = QueuedRequest> {
  /** Requests that may wait, all levels together, unless the config allows more in one of them. */
  readonly queue_max: number;
  /** Places of each instance, behind the batch that it runs, for batches that cannot grow any more. */
  readonly places_ahead: number;
  /** The model's own; only dynamic batching asks it. */
  readonly strategy?: BatchStrategy<R> | undefined;
}

/** True where requests may share an execution. */
export function batchesTogether({ schedulingChoice: choice }: ModelConfig): boolean {
  return choice.case === 'dynamicBatching' || choice.case === 'sequenceBatching';
}

/** What decides how much an instance may hold of the model; `rate_limit`: `--rate-limit` is on. */
export function executionKind(
  { schedulingChoice: choice, instanceGroup: groups }: ModelConfig,
  { decoupled, rate_limit }: { readonly decoupled: boolean; readonly rate_limit: boolean },
): ExecutionKind {
  if (decoupled) return 'streams';
  if (choice.case === 'sequenceBatching') return 'sequences';
  if (choice.case === 'dynamicBatching') return isExact(queuePolicies(choice.value)) ? 'exact' : 'batches';
  return rate_limit && groups.some(isRateLimited) ? 'limited' : 'single';
}

/** True where answers go in the order in which their requests were sent out. */
export function preservesOrdering({ schedulingChoice: choice }: ModelConfig): boolean {
  if (choice.case === 'dynamicBatching') return choice.value.preserveOrdering;
  if (choice.case !== 'sequenceBatching') return false;
  const { strategyChoice: strategy } = choice.value;
  return strategy.case === 'oldest' && strategy.value.preserveOrdering;
}

/** Of the models of an ensemble's steps: whether one answers in the order of its requests (Triton: preserve_responses_order). */
export function answersInOrder(config: ModelConfig): boolean {
  const { schedulingChoice: choice, instanceGroup: groups } = config;
  if (choice.case === 'sequenceBatching' || preservesOrdering(config)) return true;
  return choice.case !== 'dynamicBatching' && groups.reduce((sum, { count }) => sum + count, 0) === 1;
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
  if (choice.case === 'sequenceBatching') return sequenceScheduler<R>(config, choice.value, options.queue_max);
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
    fills: bulkRule(config) === 'fill',
  });
}

function sequenceScheduler<R extends QueuedRequest>(
  config: ModelConfig,
  { maxSequenceIdleMicroseconds: idleUs, strategyChoice: strategy }: pb.ModelSequenceBatching,
  queue_max: number,
): Scheduler<R> {
  const rows_max = Math.max(1, config.maxBatchSize);
  const slots = sequenceSignature(config)?.slots ?? rows_max;
  const common = { slots, idle_us: Number(idleUs), queue_max };
  if (strategy.case !== 'oldest') {
    const direct = {
      slots,
      delay_us: Number(strategy.value?.maxQueueDelayMicroseconds ?? 0),
      utilization_min: strategy.value?.minimumSlotUtilization ?? 0,
    };
    return createSequenceScheduler<R>({
      ...common,
      wantsAnswered: false,
      createReadySteps: () => createDirectSteps(direct),
    });
  }
  const delay_us = Number(strategy.value.maxQueueDelayMicroseconds);
  const preferred = preferredSizes(config.maxBatchSize, strategy.value.preferredBatchSize);
  return createSequenceScheduler<R>({
    ...common,
    wantsAnswered: delay_us === 0,
    createReadySteps: () => createOldestSteps({ rows_max, preferred, delay_us }),
  });
}

function isPassive({ instanceGroup: groups }: ModelConfig): boolean {
  return groups.length > 0 && groups.every(({ passive }) => passive);
}

/** A config without preferred sizes is completed to max_batch_size alone: a batch of that size is full, which nobody preferred. */
function preferredSizes(maxBatchSize: number, sizes: readonly number[]): readonly number[] {
  return sizes.every((size) => size === maxBatchSize) ? [] : sizes;
}
