/** The seeds of the tests whose number `pnpm sim` sets, and the search for one that a wrong rule is noticed in. */

export const FIRST_SEED = Number(process.env.NEREID_SIM_SEED ?? 1);
export const SEEDS_COUNT = Number(process.env.NEREID_SIM_SEEDS ?? 100);
export const seedsFrom = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => FIRST_SEED + index);
export const SEEDS: readonly number[] = seedsFrom(SEEDS_COUNT);
export const VERBOSE = process.env.NEREID_SIM_VERBOSE === '1';

export interface Search {
  /** Where it begins, 1 by default: seeds before it are known to miss it, and each takes its time. */
  readonly first?: number;
  readonly seeds: number;
}

/** The first seed in which a check notices what is wrong; an error where none of so many does. */
export async function firstCaught(
  what: string,
  { first = 1, seeds }: Search,
  isCaught: (seed: number) => boolean | Promise<boolean>,
): Promise<number> {
  for (let seed = first; seed < first + seeds; seed++) {
    if (!(await isCaught(seed))) continue;
    if (VERBOSE) console.log(`${what}: caught at seed ${seed}`);
    return seed;
  }
  throw new Error(`${what}: not noticed in seeds ${first} to ${first + seeds - 1}`);
}
