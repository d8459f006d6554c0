/** Rate limiters of several workers, under seeds; and wrong ones, each of which a check must notice within so many seeds. */
import { createRateLimiter } from '@nereid/scheduler';
import { describe, expect, test } from 'vitest';
import { createWrongLimiter, type LimiterPlant } from './limiter-plants.ts';
import { type LimiterWorld, playLimiters } from './limiter-play.ts';
import { firstCaught, SEEDS, SEEDS_COUNT } from './seeds.ts';
import type { CheckName } from './sim-checks.ts';

const PLANT_SEARCH = { seeds: 50 };
/** Of however many seeds. */
const TIMEOUT_MS = 30_000 + SEEDS_COUNT * 1_000;
const RIGHT: LimiterWorld = { create: () => createRateLimiter([]), dropsClaims: true };

test(
  'what must hold of resources, holds',
  () => {
    for (const seed of SEEDS) {
      const violations = playLimiters(seed, RIGHT);
      expect(violations, `again with: NEREID_SIM_SEED=${seed} NEREID_SIM_SEEDS=1`).toEqual([]);
    }
  },
  TIMEOUT_MS,
);

const wrong = (plant: LimiterPlant): LimiterWorld => ({ ...RIGHT, create: () => createWrongLimiter(plant) });

const PLANTS: readonly (readonly [what: string, world: LimiterWorld, check: CheckName])[] = [
  ['another overtakes the first', wrong('another overtakes the first'), 'order'],
  ['every instance has the same chances', wrong('every instance has the same chances'), 'order'],
  ['not released where it ran and is gone', wrong('not released where it ran and is gone'), 'idle'],
  ['released twice', wrong('released twice'), 'resources'],
  ['released at once', wrong('released at once'), 'resources'],
  ['global counted per worker', wrong('global counted per worker'), 'resources'],
  ['claims of workers that are gone are kept', { ...RIGHT, dropsClaims: false }, 'L1'],
];

describe('a wrong rule is noticed', () => {
  test.each(PLANTS)('%s', async (what, world, check) => {
    await firstCaught(what, PLANT_SEARCH, (seed) =>
      playLimiters(seed, world).some((violation) => violation.check === check),
    );
  });
});
