import { pb } from '@nereid/config';
import type { QueuedRequest } from './schedule.ts';

/** What holds for the requests that wait in one priority level. */
export interface QueuePolicy {
  /** Requests that may wait in the level; undefined sets no bound of its own. */
  readonly size_max: number | undefined;
  /** How long a request may wait, 0 for ever. */
  readonly timeout_us: number;
  /** A request may ask for less. */
  readonly overridable: boolean;
  /** What becomes of one that has waited so long: it is refused, or stands back behind the others of its level. */
  readonly action: 'reject' | 'delay';
}

export interface QueuePolicies {
  /** Priority levels, of which 1 is the highest; 0: priorities are ignored and all wait in one level. */
  readonly levels: number;
  /** Of requests that name no level, or one that there is not. */
  readonly default_level: number;
  readonly default: QueuePolicy;
  /** Of levels that have one of their own. */
  readonly by_level: ReadonlyMap<number, QueuePolicy>;
}

export const NO_POLICY: QueuePolicy = { size_max: undefined, timeout_us: 0, overridable: false, action: 'reject' };

export const NO_POLICIES: QueuePolicies = { levels: 0, default_level: 0, default: NO_POLICY, by_level: new Map() };

/** The policies of a config (model_config.proto, ModelDynamicBatching and ModelQueuePolicy). */
export function queuePolicies(batching: pb.ModelDynamicBatching): QueuePolicies {
  const levels = Number(batching.priorityLevels);
  const own = Object.entries(levels === 0 ? {} : batching.priorityQueuePolicy);
  return {
    levels,
    default_level: levels === 0 ? 0 : Number(batching.defaultPriorityLevel),
    default: policyOf(batching.defaultQueuePolicy),
    by_level: new Map(own.map(([level, policy]) => [Number(level), policyOf(policy)])),
  };
}

/**
 * True where it matters which requests still wait and which do not any more: then none may leave the
 * queue before an instance is idle, so that priorities, time-outs and bounds are exact.
 */
export function isExact({ levels, default: all, by_level }: QueuePolicies): boolean {
  const judges = (policy: QueuePolicy) => policy.size_max !== undefined || policy.timeout_us > 0;
  return levels > 1 || judges(all) || [...by_level.values()].some(judges);
}

/** True where what waits is told apart by its level, or by whether its time is over. */
export function hasLevels({ levels, default: all }: QueuePolicies): boolean {
  return levels > 0 || (all.timeout_us > 0 && all.action === 'delay');
}

/** True where a request's time may end while it waits. */
export function hasTimeouts({ default: all, by_level }: QueuePolicies): boolean {
  return all.timeout_us > 0 || [...by_level.values()].some(({ timeout_us }) => timeout_us > 0);
}

/** The largest bound that a level has of its own; 0 for none. */
export function largestSize({ default: all, by_level }: QueuePolicies): number {
  let largest = all.size_max ?? 0;
  for (const { size_max } of by_level.values()) largest = Math.max(largest, size_max ?? 0);
  return largest;
}

/** The level that a request waits in: a priority that there is not means the default one, silently. */
export function levelOf({ levels, default_level }: QueuePolicies, priority: number): number {
  return priority >= 1 && priority <= levels ? priority : default_level;
}

/**
 * When the request's wait is over, infinite for never. Its own time-out counts where the policy
 * allows that and it is smaller than the policy's; without one of the policy it never does.
 */
export function expiryUs(policy: QueuePolicy, request: QueuedRequest): number {
  if (policy.timeout_us === 0 || request.patient) return Number.POSITIVE_INFINITY;
  const own = policy.overridable && request.timeoutUs > 0 && request.timeoutUs < policy.timeout_us;
  return request.arrivedUs + (own ? request.timeoutUs : policy.timeout_us);
}

function policyOf(policy: pb.ModelQueuePolicy | undefined): QueuePolicy {
  if (policy === undefined) return NO_POLICY;
  return {
    size_max: policy.maxQueueSize > 0 ? policy.maxQueueSize : undefined,
    timeout_us: Number(policy.defaultTimeoutMicroseconds),
    overridable: policy.allowTimeoutOverride,
    action: policy.timeoutAction === pb.ModelQueuePolicy_TimeoutAction.DELAY ? 'delay' : 'reject',
  };
}
