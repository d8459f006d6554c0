/** Lines of batches beside requests that somebody waits for, under seeds; and wrong rules, each of which is noticed. */
import { createScheduler, type QueuedRequest, type ScheduleEvent, type Scheduler } from '@nereid/scheduler';
import { describe, expect, test } from 'vitest';
import { playBackground } from './background-play.ts';
import type { CreateScheduler } from './queue-play.ts';
import { firstCaught, SEEDS, SEEDS_COUNT } from './seeds.ts';

const PLANT_SEARCH = { seeds: 50 };
const TIMEOUT_MS = 30_000 + SEEDS_COUNT * 1_000;

test(
  'background requests change nothing for others, and take what is left',
  () => {
    const totals: Record<string, number> = {};
    for (const seed of SEEDS) {
      const { failures, counts, config } = playBackground(seed, createScheduler);
      expect(failures, `again with: NEREID_SIM_SEED=${seed} NEREID_SIM_SEEDS=1, ${config}`).toEqual([]);
      for (const [what, count] of Object.entries(counts)) totals[what] = (totals[what] ?? 0) + count;
    }
    if (SEEDS_COUNT < 100) return;
    for (const what of ['spare', 'filled', 'lost']) expect(totals[what], what).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

type Hear = (event: ScheduleEvent) => readonly ScheduleEvent[];

/** A rule that is told something else. */
function planted(hear: Hear): CreateScheduler {
  return <R extends QueuedRequest>(...given: Parameters<CreateScheduler>): Scheduler<R> => {
    const right = createScheduler<R>(given[0], { queue_max: 10_000, places_ahead: 0 });
    return {
      get waiting() {
        return right.waiting;
      },
      get background() {
        return right.background ?? 0;
      },
      ...(right.wants === undefined ? {} : { wants: right.wants }),
      step: (event, nowUs) =>
        hear(event as ScheduleEvent).flatMap((heard) => right.step(heard as ScheduleEvent<R>, nowUs)),
    };
  };
}

const asking = (ask: (request: QueuedRequest) => Partial<QueuedRequest>): Hear => {
  return (event) =>
    event.type === 'arrived' && event.request.background === true
      ? [{ ...event, request: { ...event.request, ...ask(event.request) } }]
      : [event];
};

let arrivals = 0;
const PLANTS: readonly (readonly [string, Hear, RegExp])[] = [
  ['they wait among the others', asking(() => ({ background: false })), /in place of/],
  ['they fill past the rows', asking(() => ({ rows: 1, shapeKey: '' })), /in place of|several shapes|rows/],
  [
    'they take the last instance',
    (event) => [event.type === 'instance-spare' ? { ...event, others: 1 } : event],
    /left to those/,
  ],
  [
    'one is lost',
    (event) => (event.type === 'returned' && ++arrivals % 3 === 0 ? [] : [event]),
    /has not run|in place of/,
  ],
  ['one that is cancelled goes', (event) => (event.type === 'cancelled' ? [] : [event]), /cancelled|in place of/],
  [
    'batches are filled up whatever that costs',
    (event) => [event.type === 'ran' ? { ...event, runUs: 800 } : event],
    /slowed by filling/,
  ],
  ['instances stay idle', (event) => (event.type === 'instance-spare' ? [] : [event]), /left idle/],
];

describe('a wrong rule is noticed', () => {
  test.each(PLANTS)('%s', async (plant, hear, text) => {
    await firstCaught(plant, PLANT_SEARCH, (seed) =>
      playBackground(seed, planted(hear)).failures.some((failure) => text.test(failure)),
    );
  });
});
