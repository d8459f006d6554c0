/** The rule of one queue alone, under seeds; and wrong ones, each of which a check must notice within so many seeds. */
import { createScheduler } from '@nereid/scheduler';
import { describe, expect, test } from 'vitest';
import { plantQueue, type QueuePlant } from './queue-plants.ts';
import { playQueue } from './queue-play.ts';
import { firstCaught, SEEDS, SEEDS_COUNT } from './seeds.ts';
import type { CheckName } from './sim-checks.ts';

const PLANT_SEARCH = { seeds: 50 };
/** Of however many seeds. */
const TIMEOUT_MS = 30_000 + SEEDS_COUNT * 1_000;

const found = (seed: number, plant?: QueuePlant) => playQueue(seed, plantQueue(createScheduler, plant));

test(
  'what must hold of a queue, holds',
  () => {
    const totals: Record<string, number> = {};
    for (const seed of SEEDS) {
      const { violations, counts, config } = found(seed);
      expect(violations, `again with: NEREID_SIM_SEED=${seed} NEREID_SIM_SEEDS=1, ${config}`).toEqual([]);
      for (const [what, count] of Object.entries(counts)) totals[what] = (totals[what] ?? 0) + count;
    }
    // A few seeds need not have them all.
    if (SEEDS_COUNT < 100) return;
    for (const what of ['dispatch', 'reject', 'wake', 'cancel', 'lost']) expect(totals[what], what).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

const PLANTS: readonly (readonly [QueuePlant, CheckName])[] = [
  ['levels ignored', 'priority'],
  ['none is the highest level', 'priority'],
  ['forming batch kept', 'priority'],
  ['expired not rejected', 'timeout'],
  ['expired rejected late', 'timeout'],
  ['expired rejected after dispatch', 'timeout'],
  ['delayed rejected', 'timeout'],
  ['delayed keeps its place', 'priority'],
  ['larger override taken', 'timeout'],
  ['override without leave', 'timeout'],
  ['size counts executing', 'size'],
  ['size over all levels', 'size'],
  ['size without limit', 'size'],
  ['cancelled dispatched', 'cancel'],
];

describe('a wrong rule is noticed', () => {
  test.each(PLANTS)('%s', async (plant, check) => {
    await firstCaught(plant, PLANT_SEARCH, (seed) =>
      found(seed, plant).violations.some((violation) => violation.check === check),
    );
  });
});
