import { describe, expect, test } from 'vitest';
import type { BatchStrategy } from './batch-strategy.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { DEFAULTS, many, runTimeline, type Timeline } from './fixture-timeline.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { Decision, QueuedRequest } from './schedule.ts';

/** Closes a batch when the `timeoutUs` of its requests, which stand for their bytes, sum to more than 10. */
function volume(calls: string[] = []): BatchStrategy {
  return () => {
    let sum = 0;
    calls.push('begin');
    return {
      include({ id, timeoutUs }) {
        const fits = sum + timeoutUs <= 10;
        calls.push(`${id} ${fits}`);
        if (fits) sum += timeoutUs;
        return fits;
      },
      end: () => calls.push('end'),
    };
  };
}

const sized = (ms: number, bytes: number, rows = 1, shape = '') => [ms, rows, shape, { timeoutUs: bytes }] as const;

const CASES: readonly Timeline[] = [
  {
    rule: 'volume: a batch closes before the request that passes the limit',
    options: {},
    run_ms: 100,
    arrivals: [[0, 1], sized(10, 4), sized(10, 6), sized(10, 1), sized(10, 9), sized(10, 1)],
    sent: [
      [0, [1], 'free'],
      [100, [1, 1], 'strategy'],
      [200, [1, 1], 'strategy'],
      [300, [1], 'free'],
    ],
  },
  {
    rule: 'a batch that it closed does not wait for its delay',
    options: { delay_us: 5_000_000 },
    arrivals: [sized(0, 6), sized(20, 6)],
    sent: [
      [20, [1], 'strategy'],
      [5020, [1], 'delay'],
    ],
  },
  {
    rule: 'a request that it would not have at all goes alone',
    options: {},
    run_ms: 100,
    arrivals: [[0, 1], sized(10, 11), sized(10, 1), sized(10, 1)],
    sent: [
      [0, [1], 'free'],
      [100, [1], 'strategy'],
      [200, [1, 1], 'free'],
    ],
  },
  {
    rule: 'size and shape go before it',
    options: { rows_max: 2 },
    run_ms: 100,
    arrivals: [[0, 1], ...many(10, 3), sized(10, 1, 1, 'b')],
    sent: [
      [0, [1], 'free'],
      [100, [1, 1], 'full'],
      [200, [1], 'shape'],
      [300, [1], 'free'],
    ],
  },
  {
    rule: 'a preferred prefix of what it lets together goes first',
    options: { preferred: [2, 8], delay_us: 5_000_000 },
    run_ms: 100,
    arrivals: [[0, 8], sized(10, 3), sized(10, 3), sized(10, 3), sized(10, 3)],
    sent: [
      [0, [8], 'preferred'],
      [100, [1, 1], 'preferred'],
      [200, [1, 1], 'preferred'],
    ],
  },
  {
    rule: 'with one cancelled it is asked anew, and others may join',
    options: {},
    run_ms: 100,
    arrivals: [[0, 1], sized(10, 4), sized(20, 6), sized(20, 4)],
    cancels: [[30, 'r2']],
    sent: [
      [0, [1], 'free'],
      [100, [1, 1], 'free'],
    ],
  },
  {
    rule: 'with one of a higher priority before the others they are asked anew',
    options: { delay_us: 50_000, policies: { ...NO_POLICIES, levels: 2, default_level: 2 } },
    arrivals: [sized(0, 6), [10, 1, '', { timeoutUs: 6, priority: 1 }]],
    sent: [
      [10, [1], 'strategy'],
      [50, [1], 'delay'],
    ],
  },
];

describe('batching strategy', () => {
  test.each(CASES)('$rule', (given) => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, ...given.options, strategy: volume() });
    expect(runTimeline(scheduler, given).sent).toEqual(given.sent);
  });

  const bytes = (id: string, size: number): QueuedRequest => queuedRequest({ id, timeoutUs: size });

  test('is asked of each request once, in the order of the queue, and told how each batch ended', () => {
    const calls: string[] = [];
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: 1000, strategy: volume(calls) });
    const step = (...event: Parameters<typeof scheduler.step>): readonly Decision[] => scheduler.step(...event);
    step({ type: 'instance-free', instance: 'i' }, 0);
    expect(calls).toEqual([]);
    step({ type: 'arrived', request: bytes('a', 3) }, 0);
    step({ type: 'arrived', request: bytes('b', 3) }, 1);
    step({ type: 'time' }, 2);
    expect(calls.splice(0)).toEqual(['begin', 'a true', 'b true']);
    step({ type: 'cancelled', id: 'a' }, 3);
    expect(calls.splice(0)).toEqual(['end', 'begin', 'b true']);
    const [sent] = step({ type: 'arrived', request: bytes('c', 8) }, 4);
    expect(sent).toMatchObject({ type: 'dispatch', batch: [{ id: 'b' }], reason: 'strategy' });
    expect(calls.splice(0)).toEqual(['c false', 'end']);
    step({ type: 'instance-free', instance: 'i' }, 5);
    expect(calls).toEqual(['begin', 'c true']);
  });
});
