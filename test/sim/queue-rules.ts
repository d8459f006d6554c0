/** What a config asks of a model's queue, read once more for the checks (scheduling facts of dynamic_batch_scheduler.cc). */
import type { ModelConfig } from '@nereid/config';

/** Of one level. */
export interface LevelRules {
  /** Requests that may wait in it, delayed ones too; Infinity for no limit. */
  readonly size_max: number;
  /** 0 for none. */
  readonly timeoutUs: number;
  readonly allowsOverride: boolean;
  /** What is past its time goes behind others of its level; else it is refused. */
  readonly delays: boolean;
}

export interface QueueRules {
  readonly delayUs: number;
  /** Level 1 goes first; without levels all are of level 0. */
  levelOf(priority: number): number;
  rulesOf(level: number): LevelRules;
}

type Batching = Extract<ModelConfig['schedulingChoice'], { case: 'dynamicBatching' }>['value'];
type Policy = NonNullable<Batching['defaultQueuePolicy']>;

/** ModelQueuePolicy.TimeoutAction. */
const DELAY = 1;
const NO_POLICY: LevelRules = {
  size_max: Number.POSITIVE_INFINITY,
  timeoutUs: 0,
  allowsOverride: false,
  delays: false,
};

export function queueRules({ schedulingChoice: choice }: ModelConfig): QueueRules {
  if (choice.case !== 'dynamicBatching') return { delayUs: 0, levelOf: () => 0, rulesOf: () => NO_POLICY };
  const batching = choice.value;
  const levels = Number(batching.priorityLevels);
  const common = levelRules(batching.defaultQueuePolicy);
  const own = new Map<number, LevelRules>();
  for (const [level, policy] of Object.entries(batching.priorityQueuePolicy))
    own.set(Number(level), levelRules(policy));
  return {
    delayUs: Number(batching.maxQueueDelayMicroseconds),
    levelOf(priority) {
      if (levels === 0) return 0;
      return priority >= 1 && priority <= levels ? priority : Number(batching.defaultPriorityLevel);
    },
    rulesOf: (level) => (levels === 0 ? common : (own.get(level) ?? common)),
  };
}

function levelRules(policy: Policy | undefined): LevelRules {
  if (policy === undefined) return NO_POLICY;
  return {
    size_max: policy.maxQueueSize === 0 ? Number.POSITIVE_INFINITY : policy.maxQueueSize,
    timeoutUs: Number(policy.defaultTimeoutMicroseconds),
    allowsOverride: policy.allowTimeoutOverride,
    delays: policy.timeoutAction === DELAY,
  };
}

/** How long a request that asks for `askedUs` (0 for nothing) may wait; Infinity for ever. */
export function waitMaxUs({ timeoutUs, allowsOverride }: LevelRules, askedUs: number): number {
  if (timeoutUs === 0) return Number.POSITIVE_INFINITY;
  return allowsOverride && askedUs > 0 && askedUs < timeoutUs ? askedUs : timeoutUs;
}
