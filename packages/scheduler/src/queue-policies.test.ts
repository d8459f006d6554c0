/** Priorities and queue policies, as the dynamic batcher keeps them: one row per rule. */
import { QUEUE_FULL, QUEUE_TIMEOUT } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { createDynamicScheduler, type DynamicBatcherOptions } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { type Arrival, DEFAULTS, runTimeline, type Timeline } from './fixture-timeline.ts';
import { NO_POLICIES, NO_POLICY, type QueuePolicies, type QueuePolicy } from './queue-policy.ts';
import type { QueuedRequest, ScheduleEvent } from './schedule.ts';

interface Case extends Omit<Timeline, 'sent' | 'rejected'> {
  /** When, and the ids of the batch. */
  readonly batches: readonly (readonly [ms: number, ...ids: string[]])[];
  /** Who is refused, and when. */
  readonly rejected?: readonly (readonly [id: string, ms: number])[];
}

const policy = (given: Partial<QueuePolicy>): QueuePolicy => ({ ...NO_POLICY, ...given });
const one = (given: Partial<QueuePolicy>): QueuePolicies => ({ ...NO_POLICIES, default: policy(given) });
const levels = (
  count: number,
  usual: number,
  all: Partial<QueuePolicy> = {},
  own: Readonly<Record<number, Partial<QueuePolicy>>> = {},
): QueuePolicies => ({
  levels: count,
  default_level: usual,
  default: policy(all),
  by_level: new Map(Object.entries(own).map(([level, given]) => [Number(level), policy(given)])),
});
/** One request of one row, of that priority. */
const of = (ms: number, priority: number, wishes: Partial<QueuedRequest> = {}): Arrival => [
  ms,
  1,
  '',
  { priority, ...wishes },
];
const within = (ms: number, timeout_ms: number): Arrival => of(ms, 0, { timeoutUs: timeout_ms * 1000 });

const ALONE: Partial<DynamicBatcherOptions> = { rows_max: 1 };

const PRIORITIES: readonly Case[] = [
  {
    rule: 'BC-061: 1 first, then 2, none and 9 of 3 as the default level, by arrival, then 3',
    options: { ...ALONE, policies: levels(3, 2) },
    run_ms: 300,
    arrivals: [of(0, 0), of(30, 3), of(60, 2), of(90, 1), of(120, 0), of(150, 9)],
    batches: [
      [0, 'r0'],
      [300, 'r3'],
      [600, 'r2'],
      [900, 'r4'],
      [1200, 'r5'],
      [1500, 'r1'],
    ],
  },
  {
    rule: 'BC-062: without levels priorities are ignored',
    options: { ...ALONE, policies: levels(0, 0) },
    run_ms: 10,
    arrivals: [of(0, 3), of(1, 3), of(2, 1)],
    batches: [
      [0, 'r0'],
      [10, 'r1'],
      [20, 'r2'],
    ],
  },
  {
    rule: 'without levels a policy for a level is ignored',
    options: { ...ALONE, policies: levels(0, 0, {}, { 1: { size_max: 1 } }) },
    run_ms: 10,
    arrivals: [of(0, 1), of(1, 1), of(2, 1)],
    batches: [
      [0, 'r0'],
      [10, 'r1'],
      [20, 'r2'],
    ],
  },
  {
    rule: 'all of a level go before the next one, also those that came later',
    options: { ...ALONE, policies: levels(2, 2) },
    run_ms: 10,
    arrivals: [of(0, 2), of(1, 2), of(2, 2), of(3, 1), of(12, 1)],
    batches: [
      [0, 'r0'],
      [10, 'r3'],
      [20, 'r4'],
      [30, 'r1'],
      [40, 'r2'],
    ],
  },
  {
    rule: 'a batch may mix levels',
    options: { rows_max: 4, policies: levels(3, 2) },
    run_ms: 100,
    arrivals: [of(0, 0), of(10, 0), of(20, 1), of(30, 1), of(40, 1)],
    batches: [
      [0, 'r0'],
      [100, 'r2', 'r3', 'r4', 'r1'],
    ],
  },
  {
    rule: 'a higher arrival displaces who waits for company: 1 and 1 of level 3, then 3 rows of level 1',
    options: { rows_max: 4, preferred: [4], delay_us: 600_000, policies: levels(3, 2) },
    arrivals: [of(0, 3), of(100, 3), [200, 3, '', { priority: 1 }]],
    batches: [
      [200, 'r2', 'r0'],
      [700, 'r1'],
    ],
  },
  {
    rule: 'with equal priorities it is the other way round: 1 and 1, then 3 rows that do not fit',
    options: { rows_max: 4, preferred: [4], delay_us: 600_000, policies: levels(3, 2) },
    arrivals: [of(0, 0), of(100, 0), [200, 3]],
    batches: [
      [200, 'r0', 'r1'],
      [800, 'r2'],
    ],
  },
  {
    rule: 'a higher arrival never preempts a batch that was sent',
    options: { ...ALONE, policies: levels(2, 2) },
    run_ms: 100,
    arrivals: [of(0, 2), of(1, 1)],
    batches: [
      [0, 'r0'],
      [100, 'r1'],
    ],
  },
  {
    rule: 'a higher arrival of another shape parts a forming batch',
    options: { delay_us: 100_000, policies: levels(2, 2) },
    arrivals: [of(0, 2), [10, 1, 'x', { priority: 1 }], of(20, 2)],
    batches: [
      [10, 'r1'],
      [100, 'r0', 'r2'],
    ],
  },
  {
    rule: 'a higher arrival between a full batch and what closed it is taken',
    options: { rows_max: 4, delay_us: 100_000, policies: levels(3, 2) },
    run_ms: 50,
    arrivals: [[0, 4], [1, 2, '', { priority: 1 }], [2, 3, '', { priority: 3 }], of(3, 2)],
    batches: [
      [0, 'r0'],
      [50, 'r1', 'r3'],
      [102, 'r2'],
    ],
  },
];

const SIZES: readonly Case[] = [
  {
    rule: 'BC-058: max_queue_size 2: one runs, two wait, the others are refused at once',
    options: { ...ALONE, policies: one({ size_max: 2 }) },
    run_ms: 1500,
    arrivals: [0, 50, 100, 150, 200, 250].map((ms) => [ms, 1] as const),
    batches: [
      [0, 'r0'],
      [1500, 'r1'],
      [3000, 'r2'],
    ],
    rejected: [
      ['r3', 150],
      ['r4', 200],
      ['r5', 250],
    ],
  },
  {
    rule: 'max_queue_size counts level by level',
    options: { ...ALONE, policies: levels(2, 2, { size_max: 1 }) },
    run_ms: 10,
    arrivals: [of(0, 2), of(1, 2), of(2, 1), of(3, 2), of(4, 1)],
    batches: [
      [0, 'r0'],
      [10, 'r2'],
      [20, 'r1'],
    ],
    rejected: [
      ['r3', 3],
      ['r4', 4],
    ],
  },
  {
    rule: 'a level without a policy of its own has the default one',
    options: { ...ALONE, policies: levels(2, 2, { size_max: 1 }, { 1: { size_max: 2 } }) },
    run_ms: 10,
    arrivals: [of(0, 2), of(1, 1), of(2, 1), of(3, 1), of(4, 2), of(5, 2)],
    batches: [
      [0, 'r0'],
      [10, 'r1'],
      [20, 'r2'],
      [30, 'r4'],
    ],
    rejected: [
      ['r3', 3],
      ['r5', 5],
    ],
  },
  {
    rule: 'max_queue_size counts those that are delayed',
    options: { ...ALONE, policies: one({ size_max: 2, timeout_us: 5_000, action: 'delay' }) },
    run_ms: 100,
    arrivals: [of(0, 0), of(1, 0), of(2, 0), of(50, 0)],
    batches: [
      [0, 'r0'],
      [100, 'r1'],
      [200, 'r2'],
    ],
    rejected: [['r3', 50]],
  },
  {
    rule: 'who is refused by a time-out gives way at that moment',
    options: { ...ALONE, policies: one({ size_max: 1, timeout_us: 5_000 }) },
    run_ms: 8,
    arrivals: [of(0, 0), of(1, 0), of(6, 0)],
    batches: [
      [0, 'r0'],
      [8, 'r2'],
    ],
    rejected: [['r1', 6]],
  },
  {
    rule: 'all levels together have a bound too',
    options: { ...ALONE, queue_max: 2, policies: levels(5, 2) },
    run_ms: 10,
    arrivals: [of(0, 2), of(1, 3), of(2, 4), of(3, 1)],
    batches: [
      [0, 'r0'],
      [10, 'r1'],
      [20, 'r2'],
    ],
    rejected: [['r3', 3]],
  },
];

const TIMEOUTS: readonly Case[] = [
  {
    rule: 'BC-059: a time-out fires on time while the instance is busy',
    options: { ...ALONE, policies: one({ timeout_us: 300_000 }) },
    run_ms: 2000,
    arrivals: [of(0, 0), of(100, 0)],
    batches: [[0, 'r0']],
    rejected: [['r1', 400]],
  },
  {
    rule: 'and while it waits for company',
    options: { preferred: [8], delay_us: 1_500_000, policies: one({ timeout_us: 200_000 }) },
    arrivals: [of(0, 0)],
    batches: [],
    rejected: [['r0', 200]],
  },
  {
    rule: 'time-outs fire one by one, each at its time, in µs',
    options: { ...ALONE, policies: one({ timeout_us: 10_000, overridable: true }) },
    run_ms: 100,
    arrivals: [of(0, 0), of(1, 0), within(2, 0.25), within(3, 5), of(3.001, 0)],
    batches: [[0, 'r0']],
    rejected: [
      ['r2', 2.25],
      ['r3', 8],
      ['r1', 11],
      ['r4', 13.001],
    ],
  },
  {
    rule: 'an override counts only if it is smaller',
    options: { ...ALONE, policies: one({ timeout_us: 10_000, overridable: true }) },
    run_ms: 100,
    arrivals: [of(0, 0), within(1, 20), within(2, 4), within(3, 0)],
    batches: [[0, 'r0']],
    rejected: [
      ['r2', 6],
      ['r1', 11],
      ['r3', 13],
    ],
  },
  {
    rule: 'an override that is not allowed is ignored',
    options: { ...ALONE, policies: one({ timeout_us: 10_000 }) },
    run_ms: 100,
    arrivals: [of(0, 0), within(1, 4)],
    batches: [[0, 'r0']],
    rejected: [['r1', 11]],
  },
  {
    rule: 'with a default of 0 an override never applies',
    options: { ...ALONE, policies: one({ overridable: true }) },
    run_ms: 100,
    arrivals: [of(0, 0), within(1, 4)],
    batches: [
      [0, 'r0'],
      [100, 'r1'],
    ],
  },
  {
    rule: 'without a policy the time-out of a request is ignored',
    options: ALONE,
    run_ms: 100,
    arrivals: [of(0, 0), within(1, 4)],
    batches: [
      [0, 'r0'],
      [100, 'r1'],
    ],
  },
  {
    rule: 'each level has its own time-out',
    options: { ...ALONE, policies: levels(2, 2, { timeout_us: 10_000 }, { 1: { timeout_us: 2_000 } }) },
    run_ms: 100,
    arrivals: [of(0, 0), of(1, 2), of(2, 1)],
    batches: [[0, 'r0']],
    rejected: [
      ['r2', 4],
      ['r1', 11],
    ],
  },
  {
    rule: 'only time in the queue counts',
    options: { ...ALONE, policies: one({ timeout_us: 10_000 }) },
    run_ms: 100,
    arrivals: [of(0, 0)],
    batches: [[0, 'r0']],
  },
  {
    rule: 'at the very moment at which an instance comes free a time-out is first',
    options: { ...ALONE, policies: one({ timeout_us: 10_000 }) },
    run_ms: 20,
    arrivals: [of(0, 0), of(10, 0)],
    batches: [[0, 'r0']],
    rejected: [['r1', 20]],
  },
  {
    rule: 'a full batch beats the time-out',
    options: { preferred: [8], delay_us: 1_500_000, policies: one({ timeout_us: 200_000 }) },
    arrivals: [[0, 8]],
    batches: [[0, 'r0']],
  },
  {
    rule: 'one of a forming batch that times out leaves it to the others',
    options: { preferred: [8], delay_us: 100_000, policies: one({ timeout_us: 50_000, overridable: true }) },
    arrivals: [within(0, 20), within(10, 49)],
    batches: [],
    rejected: [
      ['r0', 20],
      ['r1', 59],
    ],
  },
  {
    rule: 'one that times out no longer parts two that fit together',
    options: { rows_max: 2, policies: one({ timeout_us: 90_000, overridable: true }) },
    run_ms: 50,
    arrivals: [
      [0, 2],
      [1, 1, 'a'],
      [2, 1, 'b', { timeoutUs: 10_000 }],
      [3, 1, 'a'],
    ],
    batches: [
      [0, 'r0'],
      [50, 'r1', 'r3'],
    ],
    rejected: [['r2', 12]],
  },
  {
    rule: 'a job is patient: no time-out ends it',
    options: { ...ALONE, policies: one({ timeout_us: 10_000, overridable: true }) },
    run_ms: 100,
    arrivals: [of(0, 0), of(1, 0, { patient: true, timeoutUs: 5 })],
    batches: [
      [0, 'r0'],
      [100, 'r1'],
    ],
  },
];

const DELAYS: readonly Case[] = [
  {
    rule: 'DELAY: answered all the same, after fresh ones',
    options: { ...ALONE, policies: one({ timeout_us: 20_000, action: 'delay' }) },
    run_ms: 50,
    arrivals: [of(0, 0), of(10, 0), of(49, 0)],
    batches: [
      [0, 'r0'],
      [50, 'r2'],
      [100, 'r1'],
    ],
  },
  {
    rule: 'DELAY: may starve while others come',
    options: { ...ALONE, policies: one({ timeout_us: 20_000, action: 'delay' }) },
    run_ms: 50,
    arrivals: [of(0, 0), of(10, 0), of(49, 0), of(99, 0), of(149, 0)],
    batches: [
      [0, 'r0'],
      [50, 'r2'],
      [100, 'r3'],
      [150, 'r4'],
      [200, 'r1'],
    ],
  },
  {
    rule: 'DELAY: after all of its own level, before the levels below',
    options: { ...ALONE, policies: levels(2, 2, {}, { 1: { timeout_us: 20_000, action: 'delay' } }) },
    run_ms: 50,
    arrivals: [of(0, 0), of(10, 1), of(20, 2), of(40, 1)],
    batches: [
      [0, 'r0'],
      [50, 'r3'],
      [100, 'r1'],
      [150, 'r2'],
    ],
  },
  {
    rule: 'DELAY: among those that are delayed, in the order of their expiry',
    options: { ...ALONE, policies: one({ timeout_us: 40_000, overridable: true, action: 'delay' }) },
    run_ms: 100,
    arrivals: [of(0, 0), of(10, 0), within(20, 5)],
    batches: [
      [0, 'r0'],
      [100, 'r2'],
      [200, 'r1'],
    ],
  },
  {
    rule: 'DELAY: fresh and delayed ones share a batch',
    options: { policies: one({ timeout_us: 20_000, action: 'delay' }) },
    run_ms: 50,
    arrivals: [[0, 8], of(10, 0), of(45, 0)],
    batches: [
      [0, 'r0'],
      [50, 'r2', 'r1'],
    ],
  },
  {
    rule: 'DELAY: the queue delay still counts from the arrival',
    options: { preferred: [8], delay_us: 800_000, policies: one({ timeout_us: 200_000, action: 'delay' }) },
    arrivals: [of(0, 0)],
    batches: [[800, 'r0']],
  },
  {
    rule: 'DELAY: one that stands back makes room in a full batch for a fresh one',
    options: { rows_max: 2, policies: one({ timeout_us: 20_000, action: 'delay' }) },
    run_ms: 50,
    arrivals: [[0, 2], of(10, 0), of(40, 0), of(41, 0)],
    batches: [
      [0, 'r0'],
      [50, 'r2', 'r3'],
      [100, 'r1'],
    ],
  },
];

describe.each([
  ['priorities', PRIORITIES],
  ['max_queue_size', SIZES],
  ['time-outs', TIMEOUTS],
  ['time-outs that delay', DELAYS],
] as const)('%s', (_what, cases) => {
  test.each(cases)('$rule', (given) => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, ...given.options });
    const { sent, rejected, batches } = runTimeline(scheduler, given);
    expect(batches.map((ids, index) => [sent[index]?.[0], ...ids])).toEqual(given.batches);
    expect(rejected).toEqual(given.rejected ?? []);
    expect(scheduler.waiting).toBe(0);
  });
});

describe('the error says why', () => {
  const scheduler = createDynamicScheduler({ ...DEFAULTS, policies: one({ size_max: 1, timeout_us: 5 }) });
  const step = (event: ScheduleEvent, us: number) => scheduler.step(event, us);
  const first = queuedRequest({ id: '1' });
  const second = queuedRequest({ id: '2' });

  test('of a full queue, and of a time-out', () => {
    expect(step({ type: 'arrived', request: first }, 0)).toEqual([{ type: 'wake', atUs: 5 }]);
    expect(step({ type: 'arrived', request: second }, 1)).toEqual([
      { type: 'reject', request: second, error: QUEUE_FULL },
    ]);
    expect(step({ type: 'time' }, 5)).toEqual([{ type: 'reject', request: first, error: QUEUE_TIMEOUT }]);
  });
});

describe('a request whose batch was lost', () => {
  const dispatched = (decisions: ReturnType<ReturnType<typeof createDynamicScheduler>['step']>) =>
    decisions.flatMap((decision) => (decision.type === 'dispatch' ? [decision.batch.map(({ id }) => id)] : []));

  test('is first in its level, by arrival, but behind higher levels', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, ...ALONE, policies: levels(2, 2) });
    const request = (id: string, arrivedUs: number, priority = 0) => queuedRequest({ id, arrivedUs, priority });
    scheduler.step({ type: 'arrived', request: request('fresh', 50) }, 50);
    // The later batch is lost first.
    for (const [id, us] of [
      ['third', 3],
      ['fourth', 4],
      ['first', 1],
      ['second', 2],
    ] as const)
      scheduler.step({ type: 'returned', request: request(id, us) }, 60);
    scheduler.step({ type: 'arrived', request: request('high', 70, 1) }, 70);
    const order = [];
    while (scheduler.waiting > 0)
      order.push(...dispatched(scheduler.step({ type: 'instance-free', instance: 'a' }, 80)));
    expect(order.flat()).toEqual(['high', 'first', 'second', 'third', 'fourth', 'fresh']);
  });

  test('shares the next batch with others that come back with it, the highest level first', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, policies: levels(2, 2) });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    for (const [id, priority] of [
      ['low', 2],
      ['high', 1],
      ['other', 2],
    ] as const)
      expect(scheduler.step({ type: 'returned', request: queuedRequest({ id, priority }) }, 10)).toEqual([]);
    expect(dispatched(scheduler.step({ type: 'time' }, 10))).toEqual([['high', 'low', 'other']]);
  });

  test('has met its time-out and the bound of its queue', () => {
    const scheduler = createDynamicScheduler({
      ...DEFAULTS,
      ...ALONE,
      policies: one({ size_max: 1, timeout_us: 100 }),
    });
    scheduler.step({ type: 'arrived', request: queuedRequest({ id: 'waits', arrivedUs: 950 }) }, 950);
    expect(scheduler.step({ type: 'returned', request: queuedRequest({ id: 'lost' }) }, 1_000)).toEqual([]);
    expect(scheduler.waiting).toBe(2);
    expect(scheduler.step({ type: 'time' }, 1_050)).toHaveLength(1);
    expect(dispatched(scheduler.step({ type: 'instance-free', instance: 'a' }, 9_999))).toEqual([['lost']]);
  });

  test('counts among those that wait', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, ...ALONE, policies: one({ size_max: 1 }) });
    scheduler.step({ type: 'returned', request: queuedRequest({ id: 'lost' }) }, 0);
    expect(scheduler.step({ type: 'arrived', request: queuedRequest({ id: 'new' }) }, 0)).toHaveLength(1);
    expect(scheduler.waiting).toBe(1);
  });
});

describe('what waits is told', () => {
  const told = (policies: QueuePolicies, arrivals: readonly Arrival[], passed_us: number) => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, policies });
    for (const [index, [, , , wishes]] of arrivals.entries())
      scheduler.step({ type: 'arrived', request: queuedRequest({ id: `r${index}`, ...wishes }) }, 0);
    scheduler.step({ type: 'time' }, passed_us);
    const before = [...(scheduler.levels ?? [])];
    scheduler.step({ type: 'instance-free', instance: 'a' }, passed_us);
    return { before, after: [...(scheduler.levels ?? [])] };
  };

  test('by level from the highest on, without those in which nobody waits', () => {
    const policies = levels(5, 3, {}, { 5: { timeout_us: 10, action: 'delay' } });
    const { before, after } = told(policies, [of(0, 5), of(0, 0), of(0, 1), of(0, 0), of(0, 5)], 20);
    expect(before).toEqual([
      { level: 1, waiting: 1, delayed: 0 },
      { level: 3, waiting: 2, delayed: 0 },
      { level: 5, waiting: 2, delayed: 2 },
    ]);
    expect(after).toEqual([]);
  });

  test('as one level where requests are delayed and there are no levels', () => {
    const policies = one({ timeout_us: 10, overridable: true, action: 'delay' });
    const { before } = told(policies, [of(0, 0, { timeoutUs: 5 }), of(0, 0), of(0, 0)], 7);
    expect(before).toEqual([{ level: 0, waiting: 3, delayed: 1 }]);
  });

  test('not at all where there are neither', () => {
    expect(told(NO_POLICIES, [of(0, 0)], 1).before).toEqual([]);
  });
});
