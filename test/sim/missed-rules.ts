/** Rules of docs/protocol.md taken out: those that a check misses, and those that another rule stands behind. */
import { expect } from 'vitest';
import { firstCaught, type Search, VERBOSE } from './seeds.ts';
import type { CheckName } from './sim-checks.ts';
import { targeted } from './sim-mixes.ts';
import { type Simulation, simulate } from './simulate.ts';
import { type Rule, switchOff } from './switches.ts';

export type RuleCourse = (seed: number) => Omit<Simulation, 'seed' | 'switches'>;

export interface MissedRule extends Search {
  readonly off: Rule;
  /** Out in both runs. */
  readonly too?: readonly Rule[];
  /** Out with it. */
  readonly and?: readonly Rule[];
  readonly caught: readonly CheckName[];
  readonly course: RuleCourse;
}

export interface BackstopRule {
  readonly off: Rule;
  /** In which it matters that the rule is out. */
  readonly course: RuleCourse;
  /** Out in both runs. */
  readonly too?: readonly Rule[];
  /** The first of the seeds, 1 by default. */
  readonly first?: number;
}

export const RULE_TIMEOUT_MS = 300_000;
/** Each is run twice, and the first in which it matters will do. */
const BACKSTOP_SEEDS = 4;

export const mix = (...how: Parameters<typeof targeted>) => {
  const targetedMix = targeted(...how);
  return () => ({ mix: targetedMix });
};

/** A check notices it within so many seeds; with the rule in, that seed passes. */
export async function isMissed(row: MissedRule): Promise<void> {
  const seed = await firstCaught(`${row.off} off`, row, (candidate) => isCaught(row, candidate, true));
  expect(await isCaught(row, seed, false), `seed ${seed} with the rule in`).toBe(false);
}

async function isCaught({ off, too = [], and = [], caught, course }: MissedRule, seed: number, isOff: boolean) {
  const switches = switchOff(...too, ...(isOff ? [off, ...and] : []));
  const { violations } = await simulate({ seed, switches, ...course(seed) });
  return violations.some(({ check }) => caught.includes(check));
}

/** It makes a difference, and nothing is wrong. */
export async function isBackstop({ off, course, too = [], first = 1 }: BackstopRule): Promise<void> {
  for (let seed = first; seed < first + BACKSTOP_SEEDS; seed++) {
    const { violations, trace } = await simulate({ seed, ...course(seed), switches: switchOff(off, ...too) });
    expect(violations, `seed ${seed}`).toEqual([]);
    const { trace: withRule } = await simulate({ seed, ...course(seed), switches: switchOff(...too) });
    if (trace === withRule) continue;
    if (VERBOSE) console.log(`${off} off: changes seed ${seed}`);
    return;
  }
  throw new Error(`${off} off: makes no difference in seeds ${first} to ${first + BACKSTOP_SEEDS - 1}`);
}
