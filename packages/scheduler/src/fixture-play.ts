import { QUEUE_FULL, QUEUE_TIMEOUT } from '@nereid/protocol';
import fc from 'fast-check';
import { expect } from 'vitest';
import { createPlainQueue } from './fixture-plain-queue.ts';
import { queuedRequest } from './fixture-request.ts';
import type { QueuePolicies } from './queue-policy.ts';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';

export const ROWS_MAX = 8;
/** What a batch takes, as the scheduler is told; it may hold another for a quarter of that. */
const RUN_US = 800;

/** More levels than anybody could make a queue for each of. */
export const LEVELS_MANY = 2 ** 60;

const arrival = fc.record({
  do: fc.constant('arrive' as const),
  rows: fc.integer({ min: 1, max: ROWS_MAX }),
  shape: fc.constantFrom('', 'a', 'b'),
  priority: fc.constantFrom(0, 1, 1, 2, 3, 9, LEVELS_MANY),
  timeoutUs: fc.constantFrom(0, 0, 20, 200, 5000),
  patient: fc.constantFrom(false, false, false, true),
});

export const script = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: arrival },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick: fc.nat(200) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('finish' as const), pick: fc.nat(200) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), pick: fc.nat(3), back: fc.boolean() }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('advance' as const), us: fc.integer({ min: 0, max: 900 }) }) },
  ),
  { maxLength: 120 },
);
export type Action = typeof script extends fc.Arbitrary<readonly (infer A)[]> ? A : never;

export interface PlayOptions {
  readonly policies: QueuePolicies;
  readonly queue_max: number;
  /** How long a request may wait while an instance is idle. */
  readonly delay_us: number;
  readonly places_ahead: number;
  /** Rows that make a batch full, and those that are preferred. */
  readonly rows_wanted: number;
  readonly preferred: readonly number[];
}

interface Running {
  readonly instance: string;
  readonly batch: readonly QueuedRequest[];
}

export interface Played {
  readonly batches: readonly (readonly QueuedRequest[])[];
  /** How each request ended; each ends once. */
  readonly outcomes: ReadonlyMap<string, 'ran' | 'lost' | 'cancelled' | 'full' | 'late'>;
  readonly arrived: readonly string[];
}

/**
 * Plays a script against three instances, then lets all drain. Each decision is held against a plain
 * queue as it comes: who is sent is who is first there, who is refused has no room there or has waited
 * for just his time; and while an instance is idle nobody waits longer than the delay, or without one
 * for who comes back.
 */
export function play(scheduler: Scheduler, actions: readonly Action[], options: PlayOptions): Played {
  let nowUs = 0;
  let wakeUs: number | undefined;
  let answeredUs = Number.NEGATIVE_INFINITY;
  const plain = createPlainQueue(options.policies, options.queue_max);
  const free = new Map<string, number>(['i0', 'i1', 'i2'].map((instance) => [instance, 0]));
  const running: Running[] = [];
  const requests = new Map<string, QueuedRequest>();
  const outcomes = new Map<string, 'ran' | 'lost' | 'cancelled' | 'full' | 'late'>();
  const batches: (readonly QueuedRequest[])[] = [];

  const end = (id: string, outcome: 'ran' | 'lost' | 'cancelled' | 'full' | 'late') => {
    expect(outcomes.has(id)).toBe(false);
    outcomes.set(id, outcome);
  };

  /** Whether the batch, which has left the queue, was closed for what it says. */
  const isJustified = ({ batch, reason }: Extract<Decision, { type: 'dispatch' }>): boolean => {
    const rows = batch.reduce((sum, request) => sum + request.rows, 0);
    const next = requests.get(plain.ids()[0] ?? '');
    switch (reason) {
      case 'single':
        return batch.length === 1;
      case 'full':
        return rows >= options.rows_wanted || (next !== undefined && rows + next.rows > options.rows_wanted);
      case 'preferred':
        return options.preferred.includes(rows);
      case 'shape':
        return next !== undefined && next.shapeKey !== batch[0]?.shapeKey;
      case 'delay':
        return batch.some(({ arrivedUs }) => nowUs - arrivedUs >= options.delay_us);
      case 'free':
        return options.delay_us === 0 && next === undefined;
      default:
        return false;
    }
  };

  const dispatched = (decision: Extract<Decision, { type: 'dispatch' }>) => {
    const { instance, batch } = decision;
    const places = free.get(instance) ?? 0;
    expect(places).toBeGreaterThan(0);
    free.set(instance, places - 1);
    const ids = batch.map(({ id }) => id);
    expect(ids).toEqual(plain.ids().slice(0, ids.length));
    for (const id of ids) plain.remove(id);
    expect(isJustified(decision)).toBe(true);
    running.push({ instance, batch });
    batches.push(batch);
  };

  const step = (event: ScheduleEvent, change: () => void, isRefused = false) => {
    // The one whose time was over first was to be seen to then.
    expect(plain.nextExpiryUs()).toBeGreaterThanOrEqual(nowUs);
    const late = [...plain.expire(nowUs)];
    change();
    late.push(...plain.expire(nowUs));
    const decisions = scheduler.step(event, nowUs);
    const rejected = decisions.flatMap((decision) => (decision.type === 'reject' ? [decision] : []));
    const full = rejected.filter(({ error }) => error === QUEUE_FULL).map(({ request }) => request.id);
    expect(full).toHaveLength(isRefused ? 1 : 0);
    expect(rejected.filter(({ error }) => error === QUEUE_TIMEOUT).map(({ request }) => request.id)).toEqual(late);
    for (const id of full) end(id, 'full');
    for (const id of late) end(id, 'late');
    for (const decision of decisions) {
      if (decision.type === 'dispatch') dispatched(decision);
      if (decision.type !== 'wake') continue;
      expect(decision.atUs).toBeGreaterThan(nowUs);
      wakeUs = decision.atUs;
    }
    const waiting = plain.ids();
    expect(scheduler.waiting).toBe(waiting.length);
    if (waiting.length === 0) wakeUs = undefined;
    // Nothing is decided yet.
    if (event.type === 'returned') return;
    const isIdle = [...free.values()].some((places) => places > options.places_ahead);
    if (!isIdle || waiting.length === 0) return;
    if (options.delay_us === 0) expect(nowUs).toBeLessThan(answeredUs + RUN_US / 4);
    else for (const id of waiting) expect(nowUs - (requests.get(id)?.arrivedUs ?? 0)).toBeLessThan(options.delay_us);
  };

  const freed = (instance: string) => {
    free.set(instance, (free.get(instance) ?? 0) + 1);
    step({ type: 'instance-free', instance }, () => undefined);
  };

  const finish = ({ instance, batch }: Running) => {
    for (const { id } of batch) end(id, 'ran');
    answeredUs = nowUs;
    step({ type: 'answered', requests: batch.length, runUs: RUN_US }, () => undefined);
    freed(instance);
  };

  const advance = (untilUs: number) => {
    while (wakeUs !== undefined && wakeUs <= untilUs) {
      nowUs = wakeUs;
      wakeUs = undefined;
      step({ type: 'time' }, () => undefined);
    }
    nowUs = untilUs;
  };

  const arrive = ({ rows, shape, priority, timeoutUs, patient }: Extract<Action, { do: 'arrive' }>) => {
    const id = `r${requests.size}`;
    const request = queuedRequest({ id, rows, shapeKey: shape, arrivedUs: nowUs, priority, timeoutUs, patient });
    requests.set(id, request);
    // Whose time is over has left by then.
    const lateFirst = plain.nextExpiryUs() <= nowUs;
    if (lateFirst) step({ type: 'time' }, () => undefined);
    const hasRoom = plain.hasRoom(request);
    step({ type: 'arrived', request }, () => (hasRoom ? plain.arrive(request) : undefined), !hasRoom);
  };

  /** Its batches are gone; their requests come back, or are over. */
  const lose = (instance: string, back: boolean) => {
    const lost = running.filter((batch) => batch.instance === instance);
    for (const batch of lost) running.splice(running.indexOf(batch), 1);
    free.set(instance, 0);
    step({ type: 'instance-lost', instance }, () => undefined);
    for (const request of lost.flatMap(({ batch }) => batch)) {
      if (back) step({ type: 'returned', request }, () => plain.giveBack(request));
      else end(request.id, 'lost');
    }
    for (let place = 0; place <= options.places_ahead; place++) freed(instance);
  };

  for (let place = 0; place <= options.places_ahead; place++) for (const instance of [...free.keys()]) freed(instance);
  for (const action of actions) {
    switch (action.do) {
      case 'arrive':
        arrive(action);
        break;
      case 'cancel': {
        const id = `r${action.pick}`;
        step({ type: 'cancelled', id }, () => (plain.remove(id) ? end(id, 'cancelled') : undefined));
        break;
      }
      case 'finish': {
        const [batch] = running.splice(action.pick % Math.max(1, running.length), 1);
        if (batch !== undefined) finish(batch);
        break;
      }
      case 'lose':
        lose(`i${action.pick % 3}`, action.back);
        break;
      case 'advance':
        advance(nowUs + action.us);
        break;
    }
  }
  // Everything drains once runs end and time goes on.
  for (let round = 0; (scheduler.waiting > 0 || running.length > 0) && round < 10_000; round++) {
    const batch = running.shift();
    if (batch !== undefined) finish(batch);
    else advance(nowUs + 100);
  }
  expect(scheduler.waiting).toBe(0);
  return { batches, outcomes, arrived: [...requests.keys()] };
}
