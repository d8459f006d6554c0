import { describe, expect, test } from 'vitest';
import { createDefaultScheduler } from './default-scheduler.ts';
import { queuedRequest } from './fixture-request.ts';

const request = (id: string, rows = 1) => queuedRequest({ id, rows });

describe('default scheduler', () => {
  test('each request is an execution of its own, also one of many rows, in order of arrival', () => {
    const scheduler = createDefaultScheduler({ queue_max: 10 });
    for (const given of [request('1'), request('2', 8), request('3')]) {
      expect(scheduler.step({ type: 'arrived', request: given }, 0)).toEqual([]);
    }
    expect(scheduler.step({ type: 'instance-free', instance: 'a' }, 5)).toEqual([
      { type: 'dispatch', instance: 'a', batch: [request('1')], reason: 'single' },
    ]);
    expect(scheduler.step({ type: 'instance-free', instance: 'b' }, 6)).toEqual([
      { type: 'dispatch', instance: 'b', batch: [request('2', 8)], reason: 'single' },
    ]);
    expect(scheduler.waiting).toBe(1);
  });

  test('a cancelled request leaves at once, an unknown id is ignored', () => {
    const scheduler = createDefaultScheduler({ queue_max: 10 });
    scheduler.step({ type: 'arrived', request: request('1') }, 0);
    scheduler.step({ type: 'cancelled', id: 'other' }, 0);
    expect(scheduler.waiting).toBe(1);
    scheduler.step({ type: 'cancelled', id: '1' }, 0);
    expect(scheduler.step({ type: 'instance-free', instance: 'a' }, 0)).toEqual([]);
  });

  test('one more than the queue holds is refused as Triton does', () => {
    const scheduler = createDefaultScheduler({ queue_max: 1 });
    scheduler.step({ type: 'arrived', request: request('1') }, 0);
    expect(scheduler.step({ type: 'arrived', request: request('2') }, 0)).toEqual([
      {
        type: 'reject',
        request: request('2'),
        error: { code: 'UNAVAILABLE', message: 'Exceeds maximum queue size' },
      },
    ]);
    expect(scheduler.waiting).toBe(1);
  });

  test('what came back goes by arrival, once all of it is there', () => {
    const scheduler = createDefaultScheduler({ queue_max: 10 });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    const [first, second] = [1, 2].map((arrivedUs) => queuedRequest({ id: `${arrivedUs}`, arrivedUs }));
    for (const given of [second, first]) {
      if (given !== undefined) expect(scheduler.step({ type: 'returned', request: given }, 5)).toEqual([]);
    }
    expect(scheduler.step({ type: 'time' }, 5)).toEqual([
      { type: 'dispatch', instance: 'a', batch: [first], reason: 'single' },
    ]);
  });

  test('a lost instance gets nothing', () => {
    const scheduler = createDefaultScheduler({ queue_max: 1 });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    scheduler.step({ type: 'instance-lost', instance: 'a' }, 0);
    expect(scheduler.step({ type: 'arrived', request: request('1') }, 0)).toEqual([]);
  });
});
