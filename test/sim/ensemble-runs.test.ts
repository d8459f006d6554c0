/** The rules of ensembles alone, under seeds; and wrong ones, each of which a check must notice within so many seeds. */
import { describe, expect, test } from 'vitest';
import type { EnsembleCheck } from './ensemble-checks.ts';
import { ENSEMBLE_PLANTS, type EnsemblePlant } from './ensemble-plants.ts';
import { playEnsembles, RIGHT_RULES } from './ensemble-play.ts';
import { firstCaught, SEEDS, SEEDS_COUNT } from './seeds.ts';

const PLANT_SEARCH = { seeds: 200 };
/** A play takes about a millisecond, so that each seed of `pnpm sim` stands for several. */
const PLAYS_PER_SEED = 3;
/** Of however many seeds. */
const TIMEOUT_MS = 30_000 + SEEDS_COUNT * 1_000;

test(
  'what must hold of runs and gates, holds',
  () => {
    const totals: Record<string, number> = {};
    for (const seed of SEEDS) {
      for (let play = 0; play < PLAYS_PER_SEED; play++) {
        const { violations, counts, ensemble } = playEnsembles(seed * PLAYS_PER_SEED + play, RIGHT_RULES);
        expect(violations, `again with: NEREID_SIM_SEED=${seed} NEREID_SIM_SEEDS=1, ${ensemble}`).toEqual([]);
        for (const [what, count] of Object.entries(counts)) totals[what] = (totals[what] ?? 0) + count;
      }
    }
    // A few seeds need not have them all.
    if (SEEDS_COUNT < 100) return;
    for (const [what, count] of Object.entries(totals)) expect(count, what).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);

const CAUGHT_BY: Readonly<Record<EnsemblePlant, EnsembleCheck>> = {
  'values of a tensor are counted': 'answers',
  'a step is called twice': 'calls',
  'calls go on after an error': 'error',
  'the last error decides': 'error',
  'fails while calls run': 'outcome',
  'running calls are not cancelled': 'cancel',
  'a tensor goes with its first call': 'release',
  'tensors go at the end': 'release',
  'a tensor goes twice': 'release',
  'an answer without outputs is none': 'answers',
  'a step is pruned that others need': 'answers',
  'the order of calls is ignored': 'order',
  'the end is not told': 'liveness',
  'one call too many': 'gate',
  'the last that came is let in first': 'gate',
  'places of a gate are lost': 'liveness',
};

describe('a wrong rule is noticed', () => {
  test.each(Object.entries(CAUGHT_BY) as [EnsemblePlant, EnsembleCheck][])('%s', async (plant, check) => {
    await firstCaught(plant, PLANT_SEARCH, (seed) =>
      playEnsembles(seed, ENSEMBLE_PLANTS[plant]).violations.some((violation) => violation.check === check),
    );
  });
});
