import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';

const ROWS_MAX = 8;
/** What a batch takes, as the scheduler is told; it may hold another for a quarter of that. */
const RUN_US = 800;

const action = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      rows: fc.integer({ min: 1, max: ROWS_MAX }),
      shape: fc.constantFrom('', 'a', 'b'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick: fc.nat(200) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('finish' as const), pick: fc.nat(200) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), pick: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('advance' as const), us: fc.integer({ min: 0, max: 900 }) }) },
);
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never;

const script = fc.array(action, { maxLength: 120 });

const options = fc.record({
  rows_max: fc.integer({ min: 1, max: ROWS_MAX }),
  preferred: fc.uniqueArray(fc.integer({ min: 1, max: ROWS_MAX }), { maxLength: 3 }),
  delay_us: fc.constantFrom(0, 1, 100, 2500),
  places_ahead: fc.constantFrom(0, 1),
  queue_max: fc.constantFrom(3, 1000),
  policies: fc.constant(NO_POLICIES),
});

interface Played {
  readonly batches: readonly { readonly batch: readonly QueuedRequest[]; readonly atUs: number }[];
  readonly arrived: readonly string[];
  readonly cancelled: readonly string[];
  readonly rejected: readonly string[];
  readonly longestWaitUs: number;
}

/** Plays a script against three instances, then lets all drain; checks each decision as it comes. */
function play(scheduler: Scheduler, actions: readonly Action[], placesEach = 1): Played {
  let nowUs = 0;
  let wakeUs: number | undefined;
  let longestWaitUs = 0;
  const free = new Map<string, number>([
    ['i0', 0],
    ['i1', 0],
    ['i2', 0],
  ]);
  const running: string[] = [];
  const queued = new Map<string, QueuedRequest>();
  const batches: { batch: readonly QueuedRequest[]; atUs: number }[] = [];
  const arrived: string[] = [];
  const cancelled: string[] = [];
  const rejected: string[] = [];

  const apply = (decision: Decision) => {
    if (decision.type === 'wake') {
      expect(decision.atUs).toBeGreaterThan(nowUs);
      wakeUs = decision.atUs;
    } else if (decision.type === 'reject') {
      expect(queued.delete(decision.request.id)).toBe(true);
      rejected.push(decision.request.id);
    } else {
      const places = free.get(decision.instance) ?? 0;
      expect(places).toBeGreaterThan(0);
      free.set(decision.instance, places - 1);
      running.push(decision.instance);
      for (const request of decision.batch) {
        expect(queued.delete(request.id)).toBe(true);
        longestWaitUs = Math.max(longestWaitUs, nowUs - request.arrivedUs);
      }
      batches.push({ batch: decision.batch, atUs: nowUs });
    }
  };
  const step = (event: ScheduleEvent) => {
    for (const decision of scheduler.step(event, nowUs)) apply(decision);
    expect(scheduler.waiting).toBe(queued.size);
  };
  const freed = (instance: string) => {
    free.set(instance, (free.get(instance) ?? 0) + 1);
    step({ type: 'instance-free', instance });
  };
  const advance = (untilUs: number) => {
    while (wakeUs !== undefined && wakeUs <= untilUs) {
      nowUs = wakeUs;
      wakeUs = undefined;
      step({ type: 'time' });
    }
    nowUs = untilUs;
  };
  for (const instance of [...free.keys()]) {
    for (let place = 0; place < placesEach; place++) freed(instance);
  }
  for (const given of actions) {
    switch (given.do) {
      case 'arrive': {
        const request = queuedRequest({
          id: `r${arrived.length}`,
          rows: given.rows,
          shapeKey: given.shape,
          arrivedUs: nowUs,
        });
        arrived.push(request.id);
        queued.set(request.id, request);
        step({ type: 'arrived', request });
        break;
      }
      case 'cancel': {
        const id = `r${given.pick}`;
        if (queued.delete(id)) cancelled.push(id);
        step({ type: 'cancelled', id });
        break;
      }
      case 'finish': {
        const [instance] = running.splice(given.pick % Math.max(1, running.length), 1);
        if (instance === undefined) break;
        step({ type: 'answered', requests: 1 + (given.pick % ROWS_MAX), runUs: RUN_US });
        freed(instance);
        break;
      }
      case 'lose': {
        const instance = `i${given.pick % 3}`;
        const outstanding = running.filter((other) => other === instance).length;
        for (let place = 0; place < outstanding; place++) running.splice(running.indexOf(instance), 1);
        free.set(instance, 0);
        step({ type: 'instance-lost', instance });
        freed(instance);
        break;
      }
      case 'advance':
        advance(nowUs + given.us);
        break;
    }
  }
  // Everything drains once runs end and time goes on.
  for (let round = 0; queued.size > 0 && round < 10_000; round++) {
    const instance = running.shift();
    if (instance !== undefined) freed(instance);
    else advance(nowUs + 100);
  }
  expect(queued.size).toBe(0);
  return { batches, arrived, cancelled, rejected, longestWaitUs };
}

/** Each request ended exactly once, and those that ran did so in order of arrival. */
function checkOutcomes(played: Played): void {
  const ran = played.batches.flatMap(({ batch }) => batch.map((request) => request.id));
  expect([...ran, ...played.cancelled, ...played.rejected].sort()).toEqual([...played.arrived].sort());
  const numbers = ran.map((id) => Number(id.slice(1)));
  expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
}

describe('every scheduler', () => {
  test('dynamic: rows bounded, one shape, FIFO, nobody lost, all drains', () => {
    fc.assert(
      fc.property(options, script, (given, actions) => {
        const played = play(createDynamicScheduler(given), actions, 1 + given.places_ahead);
        checkOutcomes(played);
        const fitting = given.preferred.filter((size) => size <= given.rows_max);
        const wanted = fitting.length === 0 ? given.rows_max : Math.max(...fitting);
        for (const { batch } of played.batches) {
          const rows = batch.reduce((sum, request) => sum + request.rows, 0);
          expect(batch.length === 1 || rows <= wanted).toBe(true);
          expect(new Set(batch.map((request) => request.shapeKey)).size).toBe(1);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('default: single requests, FIFO, nobody lost, all drains', () => {
    fc.assert(
      fc.property(script, (actions) => {
        const played = play(createDefaultScheduler({ queue_max: 1000 }), actions);
        checkOutcomes(played);
        for (const { batch } of played.batches) expect(batch).toHaveLength(1);
      }),
    );
  });

  test('dynamic: with an instance always free nobody waits longer than the delay', () => {
    fc.assert(
      fc.property(
        options,
        fc.array(fc.tuple(fc.integer({ min: 0, max: 900 }), fc.integer({ min: 1, max: ROWS_MAX })), { maxLength: 60 }),
        (given, arrivals) => {
          const finish: Action = { do: 'finish', pick: 0 };
          const actions = arrivals.flatMap(([us, rows]): Action[] => [
            { do: 'arrive', rows, shape: '' },
            ...[finish, finish, finish],
            { do: 'advance', us },
            ...[finish, finish, finish],
          ]);
          // Few arrivals at a time and three instances that are freed all the time: one is always free.
          const played = play(createDynamicScheduler({ ...given, queue_max: 1000 }), actions, 1 + given.places_ahead);
          expect(played.longestWaitUs).toBeLessThanOrEqual(given.delay_us === 0 ? RUN_US / 4 : given.delay_us);
        },
      ),
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
    });
    if (freeFirst) scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    for (let index = 0; index < QUEUED; index++) {
      scheduler.step({ type: 'arrived', request: countedRequest(`r${index}`, count) }, 0);
    }
    expect(scheduler.waiting).toBe(QUEUED);
    while (scheduler.waiting > 0) scheduler.step({ type: 'instance-free', instance: 'a' }, 1_000);
    expect(count.looks).toBeLessThanOrEqual(QUEUED * 5);
  });
});
