import { describe, expect, test } from 'vitest';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { DEFAULTS, many, runTimeline, type Timeline } from './fixture-timeline.ts';
import type { ScheduleEvent } from './schedule.ts';

const CASES: readonly Timeline[] = [
  {
    rule: 'no delay: an idle instance gets whatever is there at once',
    options: {},
    arrivals: [[5, 1]],
    sent: [[5, [1], 'free']],
  },
  {
    rule: 'BC-049: what gathers while the instance is busy goes as one batch',
    options: {},
    run_ms: 500,
    arrivals: [[0, 1], ...many(100, 4)],
    sent: [
      [0, [1], 'free'],
      [500, [1, 1, 1, 1], 'free'],
    ],
  },
  {
    rule: 'no delay: a batch stops at max_batch_size',
    options: { rows_max: 4 },
    run_ms: 100,
    arrivals: [[0, 1], ...many(10, 6)],
    sent: [
      [0, [1], 'free'],
      [100, [1, 1, 1, 1], 'full'],
      [200, [1, 1], 'free'],
    ],
  },
  {
    rule: 'preferred [4], max 8, 11 waiting: 4, 4, 3 (a preferred size is a soft maximum)',
    options: { preferred: [4] },
    run_ms: 100,
    arrivals: [[0, 1], ...many(10, 11)],
    sent: [
      [0, [1], 'free'],
      [100, [1, 1, 1, 1], 'preferred'],
      [200, [1, 1, 1, 1], 'preferred'],
      [300, [1, 1, 1], 'free'],
    ],
  },
  {
    rule: 'preferred [4], 11 waiting past their delay: still 4, 4, 3',
    options: { preferred: [4], delay_us: 20_000 },
    run_ms: 100,
    arrivals: [[0, 4], ...many(10, 11)],
    sent: [
      [0, [4], 'preferred'],
      [100, [1, 1, 1, 1], 'full'],
      [200, [1, 1, 1, 1], 'full'],
      [300, [1, 1, 1], 'delay'],
    ],
  },
  {
    rule: 'BC-050: never past the largest preferred size; the ninth waits for its delay',
    options: { rows_max: 16, preferred: [4, 8], delay_us: 5_000_000 },
    run_ms: 800,
    arrivals: [[0, 8], ...many(100, 9)],
    sent: [
      [0, [8], 'preferred'],
      [800, [1, 1, 1, 1, 1, 1, 1, 1], 'preferred'],
      [5100, [1], 'delay'],
    ],
  },
  {
    rule: 'the largest preferred size is taken that is there when the instance comes free',
    options: { rows_max: 16, preferred: [2, 4, 8], delay_us: 1_000_000 },
    run_ms: 100,
    arrivals: [[0, 2], ...many(10, 7)],
    sent: [
      [0, [2], 'preferred'],
      [100, [1, 1, 1, 1], 'preferred'],
      [200, [1, 1], 'preferred'],
      [1010, [1], 'delay'],
    ],
  },
  {
    rule: 'past the delay all that was collected goes, not only the preferred prefix',
    options: { rows_max: 16, preferred: [4, 8], delay_us: 50_000 },
    run_ms: 100,
    arrivals: [[0, 8], ...many(10, 7)],
    sent: [
      [0, [8], 'preferred'],
      [100, [1, 1, 1, 1, 1, 1, 1], 'delay'],
    ],
  },
  {
    rule: 'preferred [2], delay 300 ms: a single request waits 300 ms',
    options: { preferred: [2], delay_us: 300_000 },
    arrivals: [[7, 1]],
    sent: [[307, [1], 'delay']],
  },
  {
    rule: 'preferred [2], delay 300 ms: a pair goes at once',
    options: { preferred: [2], delay_us: 300_000 },
    arrivals: [
      [7, 1],
      [9, 1],
    ],
    sent: [[9, [1, 1], 'preferred']],
  },
  {
    rule: 'a preferred size above max_batch_size does not count',
    options: { rows_max: 4, preferred: [6], delay_us: 10_000 },
    arrivals: many(0, 5),
    sent: [
      [0, [1, 1, 1, 1], 'full'],
      [10, [1], 'delay'],
    ],
  },
  {
    rule: 'clients with 3 and 3 rows, preferred [4]: adding would pass it, so 3 and 3',
    options: { preferred: [4], delay_us: 50_000 },
    arrivals: [
      [0, 3],
      [1, 3],
    ],
    sent: [
      [1, [3], 'full'],
      [51, [3], 'delay'],
    ],
  },
  {
    rule: "a client's batch of 8 stays whole, also above the preferred size",
    options: { preferred: [4], delay_us: 50_000 },
    arrivals: [
      [0, 8],
      [0, 1],
    ],
    sent: [
      [0, [8], 'full'],
      [50, [1], 'delay'],
    ],
  },
  {
    rule: "a client's batch that does not fit closes the batch and is not split",
    options: { rows_max: 4, delay_us: 300_000 },
    arrivals: [
      [0, 1],
      [1, 4],
      [2, 3],
      [3, 1],
    ],
    sent: [
      [1, [1], 'full'],
      [1, [4], 'full'],
      [3, [3, 1], 'full'],
    ],
  },
  {
    rule: 'BC-053: max 4: 3 and 3 rows apart',
    options: { rows_max: 4, delay_us: 300_000 },
    arrivals: [
      [0, 3],
      [10, 3],
    ],
    sent: [
      [10, [3], 'full'],
      [310, [3], 'delay'],
    ],
  },
  {
    rule: 'BC-053: max 4: 3 and 1 rows together',
    options: { rows_max: 4, delay_us: 300_000 },
    arrivals: [
      [0, 3],
      [10, 1],
    ],
    sent: [[10, [3, 1], 'full']],
  },
  {
    rule: 'shapes a, b, a, b: four batches, later equals are not pulled forward',
    options: {},
    run_ms: 100,
    arrivals: [
      [0, 1],
      [1, 1, 'a'],
      [2, 1, 'b'],
      [3, 1, 'a'],
      [4, 1, 'b'],
    ],
    sent: [
      [0, [1], 'free'],
      [100, [1], 'shape'],
      [200, [1], 'shape'],
      [300, [1], 'shape'],
      [400, [1], 'free'],
    ],
  },
  {
    rule: 'shapes a, a, b, b: two batches',
    options: {},
    run_ms: 100,
    arrivals: [
      [0, 1],
      [1, 1, 'a'],
      [2, 1, 'a'],
      [3, 1, 'b'],
      [4, 1, 'b'],
    ],
    sent: [
      [0, [1], 'free'],
      [100, [1, 1], 'shape'],
      [200, [1, 1], 'free'],
    ],
  },
  {
    rule: 'BC-052: another shape closes a waiting batch at once',
    options: { delay_us: 300_000 },
    arrivals: [
      [0, 1, '2'],
      [20, 1, '3'],
      [40, 1, '2'],
    ],
    sent: [
      [20, [1], 'shape'],
      [40, [1], 'shape'],
      [340, [1], 'delay'],
    ],
  },
  {
    rule: 'the delay counts from the oldest arrival, not from the last',
    options: { delay_us: 100_000 },
    arrivals: [
      [0, 1],
      [60, 1],
      [90, 1],
    ],
    sent: [[100, [1, 1, 1], 'delay']],
  },
  {
    rule: 'time spent waiting for an instance counts as delay',
    options: { delay_us: 100_000 },
    run_ms: 500,
    arrivals: [
      [0, 8],
      [10, 1],
    ],
    sent: [
      [0, [8], 'full'],
      [500, [1], 'delay'],
    ],
  },
  {
    rule: 'delays under a millisecond are honoured',
    options: { delay_us: 250 },
    arrivals: [
      [1, 1],
      [1.2, 1],
      [2, 1],
    ],
    sent: [
      [1.25, [1, 1], 'delay'],
      [2.25, [1], 'delay'],
    ],
  },
  {
    rule: 'several instances: each batch goes to a free one',
    options: { rows_max: 2 },
    instances: 2,
    run_ms: 100,
    arrivals: [...many(0, 2), ...many(10, 4)],
    sent: [
      [0, [1], 'free'],
      [0, [1], 'free'],
      [100, [1, 1], 'full'],
      [100, [1, 1], 'full'],
    ],
  },
  {
    rule: 'BC-056: requests that are cancelled in the window leave it, the good one is in time',
    options: { delay_us: 300_000 },
    arrivals: [
      [0, 1],
      [0, 1],
      [0, 1],
      [50, 1],
      [700, 1],
    ],
    cancels: [
      [10, 'r0'],
      [10, 'r1'],
      [60, 'r2'],
    ],
    sent: [
      [350, [1], 'delay'],
      [1000, [1], 'delay'],
    ],
  },
  {
    rule: 'a cancelled request no longer parts two that fit together',
    options: { delay_us: 300_000, rows_max: 2 },
    run_ms: 100,
    arrivals: [
      [0, 2],
      [1, 1, 'a'],
      [2, 1, 'b'],
      [3, 1, 'a'],
    ],
    cancels: [[50, 'r2']],
    sent: [
      [0, [2], 'full'],
      [100, [1, 1], 'full'],
    ],
  },
  {
    rule: 'BC-058: max_queue_size 2: one runs, two wait, the others are refused at once',
    options: { rows_max: 1, queue_max: 2 },
    run_ms: 1500,
    arrivals: [0, 50, 100, 150, 200, 250].map((ms) => [ms, 1] as const),
    sent: [
      [0, [1], 'full'],
      [1500, [1], 'full'],
      [3000, [1], 'full'],
    ],
    rejected: ['r3', 'r4', 'r5'],
  },
  {
    rule: 'BC-065: 20 at once on max_queue_size 1: one runs, one waits, 18 refused',
    options: { rows_max: 1, queue_max: 1 },
    run_ms: 100,
    arrivals: many(0, 20),
    sent: [
      [0, [1], 'full'],
      [100, [1], 'full'],
    ],
    rejected: Array.from({ length: 18 }, (_, index) => `r${index + 2}`),
  },
  {
    rule: 'requests that wait for company count in the queue',
    options: { queue_max: 2, delay_us: 100_000 },
    arrivals: many(0, 3),
    sent: [[100, [1, 1], 'delay']],
    rejected: ['r2'],
  },
];

describe('dynamic batcher', () => {
  test.each(CASES)('$rule', (given) => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, ...given.options });
    const { sent, rejected, batches } = runTimeline(scheduler, given);
    expect(sent).toEqual(given.sent);
    expect(rejected.map(([id]) => id)).toEqual(given.rejected ?? []);
    const order = batches.flat().map((id) => Number(id.slice(1)));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(scheduler.waiting).toBe(0);
  });

  const request = (id: string, arrivedUs = 0) => queuedRequest({ id, arrivedUs });

  test('what cannot grow goes ahead of an idle instance, what can waits for one', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, rows_max: 2, places_ahead: 1 });
    const sent = (event: ScheduleEvent) =>
      scheduler
        .step(event, 0)
        .flatMap((decision) => (decision.type === 'dispatch' ? decision.batch.map(({ id }) => id) : []));
    const arrives = (id: string) => sent({ type: 'arrived', request: request(id) });
    const frees = () => sent({ type: 'instance-free', instance: 'a' });
    expect([frees(), frees()]).toEqual([[], []]);
    expect(arrives('1')).toEqual(['1']);
    expect(arrives('2')).toEqual([]);
    expect(arrives('3')).toEqual(['2', '3']);
    expect([arrives('4'), arrives('5'), arrives('6')]).toEqual([[], [], []]);
    expect(frees()).toEqual(['4', '5']);
    expect([frees(), frees()]).toEqual([[], ['6']]);
  });

  test('the instance with the most free places, then the least recently used', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS });
    for (const instance of ['a', 'b', 'b', 'c']) scheduler.step({ type: 'instance-free', instance }, 0);
    const takes = (id: string) => {
      const [decision] = scheduler.step({ type: 'arrived', request: request(id) }, 0);
      return decision?.type === 'dispatch' ? decision.instance : decision;
    };
    expect([takes('1'), takes('2'), takes('3'), takes('4')]).toEqual(['b', 'a', 'c', 'b']);
    for (const instance of ['b', 'c', 'a']) scheduler.step({ type: 'instance-free', instance }, 1);
    expect([takes('5'), takes('6'), takes('7')]).toEqual(['a', 'c', 'b']);
  });

  test('a lost instance gets nothing more, and what waits goes to the next', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: 100 });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    expect(scheduler.step({ type: 'arrived', request: request('1') }, 0)).toEqual([{ type: 'wake', atUs: 100 }]);
    scheduler.step({ type: 'instance-lost', instance: 'a' }, 50);
    expect(scheduler.step({ type: 'time' }, 100)).toEqual([]);
    expect(scheduler.step({ type: 'instance-free', instance: 'b' }, 150)).toEqual([
      { type: 'dispatch', instance: 'b', batch: [request('1')], reason: 'delay' },
    ]);
  });

  test('a time event that comes early asks to be woken again', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: 100 });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    scheduler.step({ type: 'arrived', request: request('1') }, 0);
    expect(scheduler.step({ type: 'time' }, 99)).toEqual([{ type: 'wake', atUs: 100 }]);
  });

  test('the same wake is not asked for twice', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: 100 });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    scheduler.step({ type: 'arrived', request: request('1', 0) }, 0);
    expect(scheduler.step({ type: 'arrived', request: request('2', 10) }, 10)).toEqual([]);
  });

  test('once nothing waits the wake is void: the next request of the same time asks again', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: 100 });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    scheduler.step({ type: 'arrived', request: request('1') }, 0);
    scheduler.step({ type: 'cancelled', id: '1' }, 0);
    expect(scheduler.step({ type: 'arrived', request: request('2') }, 0)).toEqual([{ type: 'wake', atUs: 100 }]);
  });

  test('an id that already waits is a broken invariant', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS });
    scheduler.step({ type: 'arrived', request: request('1') }, 0);
    expect(() => scheduler.step({ type: 'arrived', request: request('1') }, 0)).toThrow('already waits');
  });
});
