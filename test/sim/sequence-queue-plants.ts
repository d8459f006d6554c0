/** Wrong rules for sequences, made from the right one by what is told to it and what is heard of it. */
import type { ModelConfig } from '@nereid/config';
import { SEQUENCE_TIMEOUT } from '@nereid/protocol';
import type {
  Decision,
  QueuedRequest,
  ScheduleEvent,
  Scheduler,
  SequenceStep,
  WaitingSession,
} from '@nereid/scheduler';
import type { CreateScheduler } from './queue-play.ts';

export type SequencePlant =
  | 'the next step before the one is over'
  | 'later steps first'
  | 'returned to the end'
  | 'a START again has a slot of its own'
  | 'highest slot first'
  | 'slots end with their instance'
  | 'the last in the backlog first'
  | 'begins on a draining instance'
  | 'mixed shapes'
  | 'a slot too many'
  | 'utilization ignored'
  | 'delay ignored'
  | 'delay twice as long'
  | 'idle too early'
  | 'idle too late'
  | 'idle forgotten where nothing waits'
  | 'idle in the backlog'
  | 'backlog time-out ignored'
  | 'time-outs count in a slot'
  | 'session-over ignored'
  | 'late wakes'
  | 'lost step'
  | 'slot kept after the end';

const LATE_US = 3_000;
const LOST_EVERY = 40;

type Batching = Extract<ModelConfig['schedulingChoice'], { case: 'sequenceBatching' }>['value'];
type Strategy = Batching['strategyChoice'];

export function plantSequences(create: CreateScheduler, plant: SequencePlant): CreateScheduler {
  return <R extends QueuedRequest>(config: ModelConfig, options?: Parameters<CreateScheduler>[1]): Scheduler<R> => {
    const right = (changed: ModelConfig = config) => create<R>(changed, options);
    const batching = (change: (batching: Batching) => Partial<Batching>) => right(withBatching(config, change));
    const delayed = (factor: bigint) =>
      right(withBatching(config, ({ strategyChoice }) => delaying(strategyChoice, factor)));
    switch (plant) {
      case 'the next step before the one is over':
        return overAtOnce(right());
      case 'later steps first':
        return swapping(right());
      case 'returned to the end':
        return hearing(right(), (event) => (event.type === 'returned' ? toTheEnd(event.request) : [event]));
      case 'a START again has a slot of its own':
        return asking(right(), ({ sequence }) => ({ sequence: alone(sequence) }));
      case 'highest slot first':
        return mirrored(right(), slotsOf(config));
      case 'slots end with their instance':
        return endingWithInstance(right());
      case 'the last in the backlog first':
        return lastFirst(right());
      case 'begins on a draining instance':
        return hearing(right(), (event) => (event.type === 'instance-draining' ? [] : [event]));
      case 'mixed shapes':
        return asking(right(), () => ({ shapeKey: '' }));
      case 'a slot too many':
        return right(withSlot(config));
      case 'utilization ignored':
        return batching(({ strategyChoice }) => utilizing(strategyChoice, 0));
      case 'delay ignored':
        return delayed(0n);
      case 'delay twice as long':
        return delayed(2n);
      case 'idle too early':
        return batching(({ maxSequenceIdleMicroseconds: us }) => ({ maxSequenceIdleMicroseconds: us / 2n }));
      case 'idle too late':
        return batching(({ maxSequenceIdleMicroseconds: us }) => ({ maxSequenceIdleMicroseconds: us * 2n }));
      case 'idle forgotten where nothing waits':
        return forgetful(right());
      case 'idle in the backlog':
        return idleInBacklog(right(), config);
      case 'backlog time-out ignored':
        return asking(right(), () => ({ timeoutUs: 0 }));
      case 'time-outs count in a slot':
        return timingOut(right());
      case 'session-over ignored':
        return hearing(right(), (event) => (event.type === 'session-over' ? [] : [event]));
      case 'late wakes':
        return deciding(right(), (decision) => [
          decision.type === 'wake' ? { ...decision, atUs: Math.ceil(decision.atUs / LATE_US) * LATE_US } : decision,
        ]);
      case 'lost step':
        return losing(right());
      case 'slot kept after the end':
        return hearing(right(), (event) => [event.type === 'step-over' ? { ...event, ended: false } : event]);
    }
  };
}

function withBatching(config: ModelConfig, change: (batching: Batching) => Partial<Batching>): ModelConfig {
  const { schedulingChoice: choice } = config;
  if (choice.case !== 'sequenceBatching') return config;
  return { ...config, schedulingChoice: { ...choice, value: { ...choice.value, ...change(choice.value) } } };
}

function utilizing(choice: Strategy, minimumSlotUtilization: number): Partial<Batching> {
  if (choice.case !== 'direct') return {};
  return { strategyChoice: { ...choice, value: { ...choice.value, minimumSlotUtilization } } };
}

function delaying(choice: Strategy, factor: bigint): Partial<Batching> {
  if (choice.case === undefined) return {};
  const maxQueueDelayMicroseconds = choice.value.maxQueueDelayMicroseconds * factor;
  return choice.case === 'direct'
    ? { strategyChoice: { ...choice, value: { ...choice.value, maxQueueDelayMicroseconds } } }
    : { strategyChoice: { ...choice, value: { ...choice.value, maxQueueDelayMicroseconds } } };
}

function withSlot(config: ModelConfig): ModelConfig {
  const { schedulingChoice: choice, maxBatchSize } = config;
  if (choice.case !== 'sequenceBatching' || choice.value.strategyChoice.case !== 'oldest') {
    return { ...config, maxBatchSize: Math.max(1, maxBatchSize) + 1 };
  }
  const { value } = choice.value.strategyChoice;
  const maxCandidateSequences = slotsOf(config) + 1;
  return withBatching(config, () => ({
    strategyChoice: { case: 'oldest', value: { ...value, maxCandidateSequences } },
  }));
}

function slotsOf({ schedulingChoice: choice, maxBatchSize }: ModelConfig): number {
  const strategy = choice.case === 'sequenceBatching' ? choice.value.strategyChoice : undefined;
  const candidates = strategy?.case === 'oldest' ? strategy.value.maxCandidateSequences : 0;
  return candidates || Math.max(1, maxBatchSize);
}

/** What is told of a rule beside its decisions, where that is not what the rule itself says. */
interface Seen {
  readonly waiting?: () => number;
  readonly needsWake?: boolean;
  readonly sessions?: () => Iterable<WaitingSession>;
}

function stepping<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  step: Scheduler<R>['step'] = scheduler.step,
  seen: Seen = {},
): Scheduler<R> {
  return {
    get waiting() {
      return seen.waiting?.() ?? scheduler.waiting;
    },
    get needsWake() {
      return seen.needsWake ?? scheduler.needsWake === true;
    },
    get sessions() {
      return seen.sessions?.() ?? scheduler.sessions ?? [];
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

/** Sees steps that ask for something else. */
function asking<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  ask: (request: R) => Partial<QueuedRequest>,
): Scheduler<R> {
  return hearing(scheduler, (event) =>
    event.type === 'arrived' ? [{ ...event, request: { ...event.request, ...ask(event.request) } }] : [event],
  );
}

/** Is heard to decide something else. */
function deciding<R extends QueuedRequest>(
  scheduler: Scheduler<R>,
  decide: (decision: Decision<R>) => readonly Decision<R>[],
): Scheduler<R> {
  return stepping(scheduler, (event, nowUs) => scheduler.step(event, nowUs).flatMap(decide));
}

function overAtOnce<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  return stepping(scheduler, (event, nowUs) => {
    const decisions = [...scheduler.step(event, nowUs)];
    for (const decision of decisions) {
      for (const { id, sequence } of decision.type === 'dispatch' ? decision.batch : []) {
        // One of which nothing waits would be seen to be quiet first.
        const goesOn = [...(scheduler.sessions ?? [])].some(
          ({ session, waiting }) => session === sequence?.session && waiting > 0,
        );
        if (goesOn) decisions.push(...scheduler.step({ type: 'step-over', id, ended: false }, nowUs));
      }
    }
    return decisions;
  });
}

/** A step is put in only once another has come for its session. */
function swapping<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  let kept: Extract<ScheduleEvent<R>, { type: 'arrived' }> | undefined;
  const step: Scheduler<R>['step'] = (event, nowUs) => {
    if (event.type !== 'arrived' || event.request.sequence?.start === true) return scheduler.step(event, nowUs);
    const first = kept;
    kept = undefined;
    if (first?.request.sequence?.session === event.request.sequence?.session && first !== undefined) {
      return [...scheduler.step(event, nowUs), ...scheduler.step(first, nowUs)];
    }
    kept = event;
    return first === undefined ? [] : scheduler.step(first, nowUs);
  };
  return stepping(scheduler, step, { waiting: () => scheduler.waiting + (kept === undefined ? 0 : 1) });
}

/** Nothing of it is out any more, as far as the rule knows, and it has come anew. */
function toTheEnd<R extends QueuedRequest>(request: R): readonly ScheduleEvent<R>[] {
  return [
    { type: 'step-over', id: request.id, ended: false },
    { type: 'arrived', request },
  ];
}

function alone(sequence: SequenceStep | undefined): SequenceStep | undefined {
  return sequence === undefined ? undefined : { ...sequence, replaces: undefined };
}

function mirrored<R extends QueuedRequest>(scheduler: Scheduler<R>, slots: number): Scheduler<R> {
  const mirror = (slot: number) => slots - 1 - slot;
  const seen = deciding(scheduler, (decision) => [
    decision.type === 'dispatch' ? { ...decision, slots: (decision.slots ?? []).map(mirror) } : decision,
  ]);
  const sessions = () =>
    [...(scheduler.sessions ?? [])].map(({ place, ...session }) => ({
      ...session,
      place: place === undefined ? undefined : { ...place, slot: mirror(place.slot) },
    }));
  return stepping(seen, seen.step, { sessions });
}

function forgetful<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  return stepping(scheduler, scheduler.step, { needsWake: false });
}

function endingWithInstance<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  return hearing(scheduler, (event) => {
    if (event.type !== 'instance-lost') return [event];
    const there = [...(scheduler.sessions ?? [])].filter(({ place }) => place?.instance === event.instance);
    return [event, ...there.map(({ session }): ScheduleEvent<R> => ({ type: 'session-over', session }))];
  });
}

/** Those that wait for a slot go behind each one that comes. */
function lastFirst<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  const steps = new Map<string, R[]>();
  return stepping(scheduler, (event, nowUs) => {
    const { session, start } =
      event.type === 'arrived' && event.request.sequence ? event.request.sequence : { session: '', start: false };
    const backlog = start ? [...(scheduler.sessions ?? [])].filter(({ place }) => place === undefined) : [];
    if (event.type === 'arrived') steps.set(session, [...(steps.get(session) ?? []), event.request]);
    const decisions: Decision<R>[] = [];
    for (const waits of backlog)
      decisions.push(...scheduler.step({ type: 'session-over', session: waits.session }, nowUs));
    decisions.push(...scheduler.step(event, nowUs));
    for (const waits of backlog) {
      const late = (steps.get(waits.session) ?? []).slice(-waits.waiting);
      for (const request of late) {
        const asked = { ...request, arrivedUs: nowUs, timeoutUs: 0, sequence: alone(request.sequence) };
        decisions.push(...scheduler.step({ type: 'arrived', request: asked }, nowUs));
      }
    }
    return decisions;
  });
}

/** Closes what nothing has come for in the backlog. */
function idleInBacklog<R extends QueuedRequest>(scheduler: Scheduler<R>, config: ModelConfig): Scheduler<R> {
  const { schedulingChoice: choice } = config;
  const idleUs = choice.case === 'sequenceBatching' ? Number(choice.value.maxSequenceIdleMicroseconds) : 0;
  return stepping(scheduler, (event, nowUs) => {
    const decisions: Decision<R>[] = [...scheduler.step(event, nowUs)];
    for (const { session, place, lastArrivedUs } of [...(scheduler.sessions ?? [])]) {
      if (place !== undefined || nowUs < lastArrivedUs + idleUs) continue;
      decisions.push({ type: 'closed', session, why: 'idle' });
      decisions.push(...scheduler.step({ type: 'session-over', session }, nowUs));
    }
    return decisions;
  });
}

function timingOut<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  const waiting = new Map<string, R>();
  return stepping(scheduler, (event, nowUs) => {
    if (event.type === 'arrived' && event.request.timeoutUs > 0) waiting.set(event.request.id, event.request);
    const decisions = [...scheduler.step(event, nowUs)];
    for (const decision of decisions) {
      for (const { id } of decision.type === 'dispatch' ? decision.batch : []) waiting.delete(id);
    }
    for (const [id, request] of waiting) {
      if (nowUs < request.arrivedUs + request.timeoutUs) continue;
      waiting.delete(id);
      const session = request.sequence?.session ?? '';
      if (![...(scheduler.sessions ?? [])].some((live) => live.session === session)) continue;
      decisions.push({ type: 'reject', request, error: SEQUENCE_TIMEOUT }, { type: 'closed', session, why: 'timeout' });
      decisions.push(...scheduler.step({ type: 'session-over', session }, nowUs));
    }
    return decisions;
  });
}

function losing<R extends QueuedRequest>(scheduler: Scheduler<R>): Scheduler<R> {
  let arrivals = 0;
  return hearing(scheduler, (event) => (event.type === 'arrived' && ++arrivals % LOST_EVERY === 0 ? [] : [event]));
}
