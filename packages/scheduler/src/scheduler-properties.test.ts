import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { LEVELS_MANY, type Played, play, ROWS_MAX, script } from './fixture-play.ts';
import { queuedRequest } from './fixture-request.ts';
import { NO_POLICIES, NO_POLICY, type QueuePolicies } from './queue-policy.ts';
import type { QueuedRequest } from './schedule.ts';

const policy = fc.record({
  size_max: fc.constantFrom(undefined, undefined, 1, 2, 5),
  timeout_us: fc.constantFrom(0, 50, 300, 1000),
  overridable: fc.boolean(),
  action: fc.constantFrom('reject' as const, 'delay' as const),
});

const policies: fc.Arbitrary<QueuePolicies> = fc
  .record({
    levels: fc.constantFrom(0, 1, 3, LEVELS_MANY),
    usual: fc.integer({ min: 1, max: 3 }),
    default: policy,
    own: fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 3 }), policy), {
      selector: ([level]) => level,
      maxLength: 2,
    }),
  })
  .map(({ levels, usual, own, ...given }) => ({
    levels,
    default_level: Math.min(levels, usual),
    default: given.default,
    by_level: new Map(own.filter(([level]) => level <= levels)),
  }));

const options = fc.record({
  rows_max: fc.integer({ min: 1, max: ROWS_MAX }),
  preferred: fc.uniqueArray(fc.integer({ min: 1, max: ROWS_MAX }), { maxLength: 3 }),
  delay_us: fc.constantFrom(0, 1, 100, 2500),
  places_ahead: fc.constantFrom(0, 1),
  queue_max: fc.constantFrom(3, 1000),
  policies: fc.oneof(fc.constant(NO_POLICIES), policies),
});

/** Each request ended exactly once. */
function checkOutcomes({ outcomes, arrived }: Played): void {
  expect([...outcomes.keys()].sort()).toEqual([...arrived].sort());
}

describe('every scheduler', () => {
  test('dynamic: rows bounded, one shape, in order of level and arrival, time-outs at their time, nobody lost', () => {
    fc.assert(
      fc.property(options, script, (given, actions) => {
        const preferred = given.preferred.filter((size) => size <= given.rows_max);
        const wanted = preferred.length === 0 ? given.rows_max : Math.max(...preferred);
        const played = play(createDynamicScheduler(given), actions, { ...given, preferred, rows_wanted: wanted });
        checkOutcomes(played);
        for (const batch of played.batches) {
          const rows = batch.reduce((sum, request) => sum + request.rows, 0);
          expect(batch.length === 1 || rows <= wanted).toBe(true);
          expect(new Set(batch.map((request) => request.shapeKey)).size).toBe(1);
        }
      }),
      { numRuns: 600 },
    );
  });

  test('default: single requests, in order of arrival, no time-outs, nobody lost', () => {
    fc.assert(
      fc.property(script, (actions) => {
        const given = {
          policies: NO_POLICIES,
          queue_max: 1000,
          delay_us: 0,
          places_ahead: 0,
          rows_wanted: 1,
          preferred: [],
        };
        const played = play(createDefaultScheduler(given), actions, given);
        checkOutcomes(played);
        for (const batch of played.batches) expect(batch).toHaveLength(1);
      }),
    );
  });
});

/** Steps over linked requests, counted by their `rows` getter: a measure that no machine's speed changes. */
function countedRequest(id: string, count: { looks: number }): QueuedRequest {
  return {
    ...queuedRequest({ id }),
    get rows() {
      count.looks++;
      return 1;
    },
  };
}

describe('a queue of 60,000', () => {
  const QUEUED = 60_000;

  test.each([
    { state: 'all instances busy', freeFirst: false },
    { state: 'an instance free and the batch waiting for its delay', freeFirst: true },
  ])('$state: each request is looked at a bounded number of times', ({ freeFirst }) => {
    const count = { looks: 0 };
    const scheduler = createDynamicScheduler({
      rows_max: freeFirst ? QUEUED + 1 : 64,
      preferred: [],
      delay_us: 1_000,
      places_ahead: 0,
      queue_max: QUEUED,
      policies: NO_POLICIES,
      eager: false,
    });
    if (freeFirst) scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    for (let index = 0; index < QUEUED; index++) {
      scheduler.step({ type: 'arrived', request: countedRequest(`r${index}`, count) }, 0);
    }
    expect(scheduler.waiting).toBe(QUEUED);
    while (scheduler.waiting > 0) scheduler.step({ type: 'instance-free', instance: 'a' }, 1_000);
    expect(count.looks).toBeLessThanOrEqual(QUEUED * 5);
  });

  test('over 60,000 levels, with time-outs: all in order, each looked at a bounded number of times', () => {
    const count = { looks: 0 };
    const policy = { ...NO_POLICY, timeout_us: 1_000, action: 'delay' as const };
    const scheduler = createDynamicScheduler({
      rows_max: 64,
      preferred: [],
      delay_us: 0,
      places_ahead: 0,
      queue_max: QUEUED,
      policies: { levels: LEVELS_MANY, default_level: 1, default: policy, by_level: new Map() },
    });
    // By a prime, so that they come in no order.
    const levels = Array.from({ length: QUEUED }, (_, index) => 1 + ((index * 7_919) % QUEUED));
    for (const [index, priority] of levels.entries()) {
      const request = Object.assign(countedRequest(`r${index}`, count), { priority });
      scheduler.step({ type: 'arrived', request }, 0);
    }
    expect(scheduler.step({ type: 'time' }, 1_000)).toEqual([]);
    const served: number[] = [];
    while (scheduler.waiting > 0) {
      for (const decision of scheduler.step({ type: 'instance-free', instance: 'a' }, 2_000)) {
        if (decision.type === 'dispatch') served.push(...decision.batch.map(({ priority }) => priority));
      }
    }
    expect(served).toEqual(levels.toSorted((a, b) => a - b));
    expect(count.looks).toBeLessThanOrEqual(QUEUED * 5);
  });

  test('a batch that waits for company is formed anew where a higher level comes, and no more than it is', () => {
    const ROWS = 64;
    const count = { looks: 0 };
    const scheduler = createDynamicScheduler({
      rows_max: ROWS,
      preferred: [],
      delay_us: 1_000,
      places_ahead: 0,
      queue_max: QUEUED,
      policies: { ...NO_POLICIES, levels: LEVELS_MANY, default_level: LEVELS_MANY },
    });
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    let arrivals = 0;
    const arrive = (priority: number) => {
      const request = Object.assign(countedRequest(`r${arrivals++}`, count), { priority });
      return scheduler.step({ type: 'arrived', request }, 0);
    };
    for (let level = ROWS; level > 1; level--) expect(arrive(level)).toHaveLength(level === ROWS ? 1 : 0);
    expect(arrive(1)).toHaveLength(1);
    expect(count.looks).toBeLessThanOrEqual((ROWS + 1) * ROWS * 2);
  });
});
