import { describe, expect, test } from 'vitest';
import type { BatchStrategy } from './batch-strategy.ts';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';

const OPTIONS = {
  rows_max: 4,
  preferred: [],
  delay_us: 1_000,
  places_ahead: 0,
  queue_max: 8,
  policies: NO_POLICIES,
  fills: true,
};
const line = (id: string, more: Partial<QueuedRequest> = {}) => queuedRequest({ id, background: true, ...more });
const arrived = (request: QueuedRequest): ScheduleEvent => ({ type: 'arrived', request });
const free = (instance: string): ScheduleEvent => ({ type: 'instance-free', instance });
const spare = (instance: string, others = 0): ScheduleEvent => ({ type: 'instance-spare', instance, others });
const told = (decisions: readonly Decision[]) =>
  decisions.map((decision) =>
    decision.type === 'dispatch'
      ? `${decision.instance} ${decision.reason}: ${decision.batch.map(({ id }) => id).join(' ')}`
      : decision.type === 'reject'
        ? `reject ${decision.request.id}`
        : decision.type,
  );
/** What the last of the events leads to, each a microsecond after the one before. */
const last = (scheduler: Scheduler, events: readonly ScheduleEvent[], atUs = events.length) =>
  told(events.map((event, index) => scheduler.step(event, index === events.length - 1 ? atUs : index)).at(-1) ?? []);

describe('lines of a batch', () => {
  test('wait for an instance with nothing else to do, however many are free', () => {
    const scheduler = createDynamicScheduler(OPTIONS);
    expect(last(scheduler, [free('a'), arrived(line('1')), arrived(line('2'))])).toEqual([]);
    expect([scheduler.waiting, scheduler.background]).toEqual([0, 2]);
    expect(last(scheduler, [spare('a')])).toEqual(['a spare: 1 2']);
    expect(last(scheduler, [spare('a')])).toEqual([]);
  });

  test('leave the one instance to a request that waits for company, and take another', () => {
    const scheduler = createDynamicScheduler(OPTIONS);
    const events = [free('a'), free('b'), arrived(line('1')), arrived(line('2')), arrived(queuedRequest({ id: 'r' }))];
    expect(last(scheduler, events)).toEqual(['wake']);
    expect(last(scheduler, [spare('a')])).toEqual([]);
    expect(last(scheduler, [spare('a', 1)])).toEqual(['a spare: 1 2']);
    expect(last(scheduler, [{ type: 'time' }], 1_000)).toEqual(['b delay: r']);
  });

  test('get the rows that a batch has left, of its shape and that fit, and hold it up by nothing', () => {
    const scheduler = createDynamicScheduler(OPTIONS);
    const lines = [line('large', { rows: 4 }), line('other', { shapeKey: 'x' }), line('1'), line('2', { rows: 2 })];
    const request = arrived(queuedRequest({ id: 'r', rows: 1 }));
    expect(last(scheduler, [free('a'), ...lines.map(arrived), request])).toEqual(['wake']);
    expect(last(scheduler, [{ type: 'time' }], 1_004)).toEqual(['a delay: r 1 2']);
    expect(scheduler.background).toBe(2);
  });

  test.each([
    ['nereid.bulk is idle', { ...OPTIONS, fills: false }],
    ['a strategy says who goes together', { ...OPTIONS, strategy: () => ({ include: () => true, end() {} }) }],
  ])('get none where %s', (_, options) => {
    const scheduler = createDynamicScheduler(options);
    last(scheduler, [free('a'), arrived(line('1')), arrived(queuedRequest({ id: 'r' }))]);
    expect(last(scheduler, [{ type: 'time' }], 1_004)).toEqual(['a delay: r']);
  });

  test('go by arrival and shape, those of a lost batch first, and ask the strategy', () => {
    const strategy: BatchStrategy<QueuedRequest> = () => ({ include: ({ id }) => id !== 'refused', end() {} });
    const scheduler = createDynamicScheduler({ ...OPTIONS, strategy });
    const lines = ['1', '2'].map((id) => arrived(line(id, { shapeKey: 'x' })));
    last(scheduler, [...lines, arrived(line('3')), arrived(line('refused'))]);
    scheduler.step({ type: 'returned', request: line('0', { shapeKey: 'x' }) }, 0);
    const places = ['a', 'b', 'c'].map(free);
    expect(last(scheduler, [...places, spare('a')])).toEqual(['a spare: 0 1 2']);
    expect(last(scheduler, [spare('b')])).toEqual(['b spare: 3']);
    expect(last(scheduler, [spare('c')])).toEqual(['c spare: refused']);
  });

  test('have no time-out, leave when cancelled, and are refused where as many wait as may', () => {
    const policies = { ...NO_POLICIES, default: { ...NO_POLICIES.default, timeout_us: 10 } };
    const scheduler = createDynamicScheduler({ ...OPTIONS, policies, queue_max: 2 });
    expect(last(scheduler, [arrived(line('1')), arrived(line('2')), arrived(line('3'))])).toEqual(['reject 3']);
    expect(last(scheduler, [arrived(queuedRequest({ id: 'r' })), { type: 'time' }], 50_000)).toEqual(['reject r']);
    expect(last(scheduler, [{ type: 'cancelled', id: '1' }, free('a'), spare('a')])).toEqual(['a spare: 2']);
  });

  test('are one execution each without dynamic batching, and only where nothing waits', () => {
    const scheduler = createDefaultScheduler({ queue_max: 8 });
    const events = [arrived(line('1')), arrived(line('2')), arrived(queuedRequest({ id: 'r' })), free('a')];
    expect(last(scheduler, events)).toEqual(['a single: r']);
    expect(last(scheduler, [free('a'), spare('a')])).toEqual(['a spare: 1']);
    expect(scheduler.background).toBe(1);
  });
});
