/** Wrong rules for a queue, made from the right one by what is told to it and what is heard of it. */
import type { ModelConfig } from '@nereid/config';
import { type ErrorInfo, QUEUE_FULL } from '@nereid/protocol';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from '@nereid/scheduler';
import type { CreateScheduler } from './queue-play.ts';
import { type QueueRules, queueRules, waitMaxUs } from './queue-rules.ts';

export type QueuePlant =
  | 'too many rows'
  | 'mixed shapes'
  | 'lost request'
  | 'levels ignored'
  | 'none is the highest level'
  | 'forming batch kept'
  | 'expired not rejected'
  | 'expired rejected late'
  | 'expired rejected after dispatch'
  | 'delayed rejected'
  | 'delayed keeps its place'
  | 'larger override taken'
  | 'override without leave'
  | 'size counts executing'
  | 'size over all levels'
  | 'size without limit'
  | 'cancelled dispatched';

/** Every so many requests one is lost. */
const LOST_EVERY = 40;
/** A time-out is noticed at these times only. */
const LATE_US = 500_000;
const EXPIRED: ErrorInfo = { code: 'UNAVAILABLE', message: 'Request timeout expired' };
const NEVER = 10n ** 12n;

export function plantQueue(create: CreateScheduler, plant: QueuePlant | undefined): CreateScheduler {
  return <R extends QueuedRequest>(config: ModelConfig, options?: Parameters<CreateScheduler>[1]): Scheduler<R> => {
    const rules = queueRules(config);
    const right = (changed: ModelConfig = config) => create<R>(changed, options);
    switch (plant) {
      case 'too many rows':
        return asking(right(), () => ({ rows: 1 }));
      case 'mixed shapes':
        return asking(right(), () => ({ shapeKey: '' }));
      case 'lost request':
        return losing(right());
      case 'levels ignored':
        return asking(right(), () => ({ priority: 0 }));
      case 'none is the highest level':
        return asking(right(), ({ priority }) => ({ priority: priority === 0 ? 1 : priority }));
      case 'forming batch kept':
        return keepsForming(right());
      case 'expired not rejected':
        return right(withPolicies(config, (policy) => ({ ...policy, defaultTimeoutMicroseconds: 0n })));
      case 'expired rejected late':
        return deciding(right(), (decision) => [
          decision.type === 'wake' ? { ...decision, atUs: Math.ceil(decision.atUs / LATE_US) * LATE_US } : decision,
        ]);
      case 'expired rejected after dispatch':
        return rejectsDispatched(right(), rules);
      case 'delayed rejected':
        return right(withPolicies(config, (policy) => ({ ...policy, timeoutAction: 0 })));
      case 'delayed keeps its place':
        return right(
          withPolicies(config, (policy) =>
            policy.timeoutAction === 1 ? { ...policy, defaultTimeoutMicroseconds: 0n } : policy,
          ),
        );
      case 'larger override taken':
        return overriding(right, config, rules, ({ allowsOverride }) => allowsOverride);
      case 'override without leave':
        return overriding(right, config, rules, ({ timeoutUs }, askedUs) => askedUs < timeoutUs);
      case 'size counts executing':
        return countsExecuting(right(), rules);
      case 'size over all levels':
        return countsAllLevels(right(), rules);
      case 'size without limit':
        return right(withPolicies(config, (policy) => ({ ...policy, maxQueueSize: 0 })));
      case 'cancelled dispatched':
        return hearing(right(), (event) => (event.type === 'cancelled' ? [] : [event]));
      case undefined:
        return right();
    }
  };
}

type Batching = Extract<ModelConfig['schedulingChoice'], { case: 'dynamicBatching' }>['value'];
type Policy = NonNullable<Batching['defaultQueuePolicy']>;

function withPolicies(config: ModelConfig, change: (policy: Policy) => Policy): ModelConfig {
  const { schedulingChoice: choice } = config;
  if (choice.case !== 'dynamicBatching') return config;
  const batching = choice.value;
  const changed: Batching = {
    ...batching,
    ...(batching.defaultQueuePolicy === undefined ? {} : { defaultQueuePolicy: change(batching.defaultQueuePolicy) }),
    priorityQueuePolicy: Object.fromEntries(
      Object.entries(batching.priorityQueuePolicy).map(([level, policy]) => [level, change(policy)]),
    ),
  };
  return { ...config, schedulingChoice: { case: 'dynamicBatching', value: changed } };
}

function stepping<R extends QueuedRequest>(scheduler: Scheduler<R>, step: Scheduler<R>['step']): Scheduler<R> {
  return {
    get waiting() {
      return scheduler.waiting;
    },
    step,
  };
}

/** Hears other events than those that come. */
function hearing<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  hear: (event: ScheduleEvent<R>) => readonly ScheduleEvent<R>[],
): Scheduler<R> {
  return stepping(scheduler, (event, nowUs) => hear(event).flatMap((heard) => scheduler.step(heard, nowUs)));
}

/** Sees requests that ask for something else. */
function asking<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  ask: (request: R) => Partial<QueuedRequest>,
): Scheduler<R> {
  return hearing(scheduler, (event) =>
    event.type === 'arrived' ? [{ ...event, request: { ...event.request, ...ask(event.request) } }] : [event],
  );
}

function losing<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  let arrivals = 0;
  return hearing(scheduler, (event) => (event.type === 'arrived' && ++arrivals % LOST_EVERY === 0 ? [] : [event]));
}

/** Is heard to decide something else. */
function deciding<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  decide: (decision: Decision<R>) => readonly Decision<R>[],
): Scheduler<R> {
  return stepping(scheduler, (event, nowUs) => scheduler.step(event, nowUs).flatMap(decide));
}

/** What arrives at the highest level is put in only once the batch that forms is gone. */
function keepsForming<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  let kept: R[] = [];
  return {
    get waiting() {
      return scheduler.waiting + kept.length;
    },
    step(event, nowUs) {
      if (event.type === 'cancelled') kept = kept.filter(({ id }) => id !== event.id);
      const isKept = event.type === 'arrived' && event.request.priority === 1 && scheduler.waiting > 0;
      if (isKept) kept.push(event.request);
      const decisions = isKept ? [] : [...scheduler.step(event, nowUs)];
      if (scheduler.waiting > 0 && !decisions.some(({ type }) => type === 'dispatch')) return decisions;
      for (const request of kept.splice(0)) decisions.push(...scheduler.step({ type: 'arrived', request }, nowUs));
      return decisions;
    },
  };
}

function rejectsDispatched<R extends QueuedRequest>(scheduler: Scheduler<R>, rules: QueueRules): Scheduler<R> {
  const sent = new Map<R, number>();
  return stepping(scheduler, (event, nowUs) => {
    const late = [...sent].flatMap(([request, endsUs]): Decision<R>[] =>
      nowUs >= endsUs && sent.delete(request) ? [{ type: 'reject', request, error: EXPIRED }] : [],
    );
    const decisions = scheduler.step(event, nowUs);
    for (const decision of decisions) {
      for (const request of decision.type === 'dispatch' ? decision.batch : []) {
        const levelRules = rules.rulesOf(rules.levelOf(request.priority));
        if (!levelRules.delays) sent.set(request, request.arrivedUs + waitMaxUs(levelRules, request.timeoutUs));
      }
    }
    return [...late, ...decisions];
  });
}

/** A request's own time-out holds where `holds`, whatever the default. */
function overriding<R extends QueuedRequest>(
  right: (config: ModelConfig) => Scheduler<R>,
  config: ModelConfig,
  rules: QueueRules,
  holds: (level: ReturnType<QueueRules['rulesOf']>, askedUs: number) => boolean,
): Scheduler<R> {
  const far = withPolicies(config, (policy) =>
    policy.defaultTimeoutMicroseconds === 0n
      ? policy
      : { ...policy, allowTimeoutOverride: true, defaultTimeoutMicroseconds: NEVER },
  );
  return asking(right(far), (request) => {
    const level = rules.rulesOf(rules.levelOf(request.priority));
    const asked = request.timeoutUs > 0 && holds(level, request.timeoutUs);
    return { timeoutUs: asked ? request.timeoutUs : level.timeoutUs };
  });
}

/** Refuses what `isFull` says of the requests that wait and of those that execute, in place of the rule. */
function refusing<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  isFull: (request: R, waiting: readonly R[], executing: readonly R[]) => boolean,
): Scheduler<R> {
  const waiting = new Map<string, R>();
  const executing = new Map<string, readonly R[]>();
  return stepping(scheduler, (event, nowUs) => {
    if (event.type === 'cancelled') waiting.delete(event.id);
    if (event.type === 'instance-free') executing.delete(event.instance);
    if (event.type === 'arrived') {
      const { request } = event;
      if (isFull(request, [...waiting.values()], [...executing.values()].flat())) {
        return [{ type: 'reject', request, error: QUEUE_FULL }];
      }
      waiting.set(request.id, request);
    }
    const decisions = scheduler.step(event, nowUs);
    for (const decision of decisions) {
      if (decision.type === 'reject') waiting.delete(decision.request.id);
      if (decision.type !== 'dispatch') continue;
      for (const { id } of decision.batch) waiting.delete(id);
      executing.set(decision.instance, decision.batch);
    }
    return decisions;
  });
}

function countsExecuting<R extends QueuedRequest>(scheduler: Scheduler<R>, rules: QueueRules): Scheduler<R> {
  return refusing(scheduler, (request, waiting, executing) => {
    const level = rules.levelOf(request.priority);
    const count = [...waiting, ...executing].filter(({ priority }) => rules.levelOf(priority) === level).length;
    return count >= rules.rulesOf(level).size_max;
  });
}

function countsAllLevels<R extends QueuedRequest>(scheduler: Scheduler<R>, rules: QueueRules): Scheduler<R> {
  return refusing(
    scheduler,
    (request, waiting) => waiting.length >= rules.rulesOf(rules.levelOf(request.priority)).size_max,
  );
}
