/** The rule for sequences alone, under seeds; and wrong ones, each of which a check must notice within so many seeds. */
import { createScheduler } from '@nereid/scheduler';
import { describe, expect, test } from 'vitest';
import { firstCaught, SEEDS, SEEDS_COUNT } from './seeds.ts';
import type { SequenceCheck } from './sequence-queue-checks.ts';
import { plantSequences, type SequencePlant } from './sequence-queue-plants.ts';
import { playSequences } from './sequence-queue-play.ts';

const PLANT_SEARCH = { seeds: 1_000 };
/** Of however many seeds. */
const TIMEOUT_MS = 30_000 + SEEDS_COUNT * 1_000;

test(
  'what must hold of sequences, holds',
  () => {
    const totals: Record<string, number> = {};
    for (const seed of SEEDS) {
      const { violations, counts, config } = playSequences(seed, createScheduler);
      expect(violations, `again with: NEREID_SIM_SEED=${seed} NEREID_SIM_SEEDS=1, ${config}`).toEqual([]);
      for (const [what, count] of Object.entries(counts)) totals[what] = (totals[what] ?? 0) + count;
    }
    // A few seeds need not have them all.
    if (SEEDS_COUNT < 100) return;
    for (const what of [
      'dispatch',
      'reject',
      'wake',
      'idle',
      'timeout',
      'over',
      'again',
      'bound',
      'lost',
      'returned',
      'draining',
    ])
      expect(totals[what], what).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

const PLANTS: readonly (readonly [SequencePlant, SequenceCheck])[] = [
  ['the next step before the one is over', 'one out'],
  ['later steps first', 'order'],
  ['returned to the end', 'order'],
  ['a START again has a slot of its own', 'order'],
  ['highest slot first', 'spread'],
  ['slots end with their instance', 'left'],
  ['the last in the backlog first', 'backlog'],
  ['begins on a draining instance', 'draining'],
  ['mixed shapes', 'batch'],
  ['a slot too many', 'slot'],
  ['utilization ignored', 'delay'],
  ['delay ignored', 'delay'],
  ['delay twice as long', 'delay'],
  ['idle too early', 'idle'],
  ['idle too late', 'idle'],
  ['idle forgotten where nothing waits', 'idle'],
  ['idle in the backlog', 'idle'],
  ['backlog time-out ignored', 'timeout'],
  ['time-outs count in a slot', 'timeout'],
  ['session-over ignored', 'left'],
  ['late wakes', 'idle'],
  ['lost step', 'left'],
  ['slot kept after the end', 'left'],
];

describe('a wrong rule is noticed', () => {
  test.each(PLANTS)('%s', async (plant, check) => {
    await firstCaught(plant, PLANT_SEARCH, (seed) =>
      playSequences(seed, plantSequences(createScheduler, plant)).violations.some(
        (violation) => violation.check === check,
      ),
    );
  });
});
