/**
 * Each rule of docs/protocol.md that serves requests without a sequence, taken out: the check that
 * its row names must fail within so many seeds. With the rule in, that seed passes.
 *
 * Some rules stand behind another, which is out in both runs: R2 and R7 save what is lost with an
 * owner's connection where the gateway's sweep does not; the tie of R3 decides only where an owner
 * goes on after its lease (R5). Others only stand behind what is caught here, or save time: taken out
 * alone they are not missed.
 */
import { expect, test } from 'vitest';
import { equalEpochs } from './plans.ts';
import { firstCaught, type Search, VERBOSE } from './seeds.ts';
import type { CheckName } from './sim-checks.ts';
import { MIXES, targeted } from './sim-mixes.ts';
import { LIMITED_MODELS, STREAM_TRAFFIC } from './sim-models.ts';
import { type Simulation, simulate } from './simulate.ts';
import { type Rule, switchOff } from './switches.ts';

interface Row extends Search {
  readonly off: Rule;
  /** Out in both runs. */
  readonly too?: readonly Rule[];
  readonly caught: readonly CheckName[];
  readonly course: (seed: number) => Omit<Simulation, 'seed' | 'switches'>;
}

const mix = (...how: Parameters<typeof targeted>) => {
  const targetedMix = targeted(...how);
  return () => ({ mix: targetedMix });
};

const ROWS: readonly Row[] = [
  { off: 'R1', caught: ['S1', 'S2', 'L1'], first: 3, seeds: 20, course: mix('storm', ['kill'], ['gateway']) },
  {
    off: 'R2',
    too: ['R8 sweep'],
    caught: ['L3'],
    first: 5,
    seeds: 40,
    course: mix('single', ['blip'], ['coordinator']),
  },
  {
    off: 'R3',
    caught: ['S4'],
    first: 5,
    seeds: 40,
    course: mix('storm', ['partition', 'pause', 'stutter'], ['coordinator']),
  },
  {
    off: 'R3 tie',
    too: ['R5'],
    caught: ['S4'],
    first: 12,
    seeds: 40,
    course: (seed) => ({
      ...mix('storm', [])(),
      sizes: { gateway: 1 + (seed % 3), coordinator: 1, worker: 1 + (seed % 4) },
      network: { noticeLossShare: 1 },
      plan: equalEpochs,
    }),
  },
  {
    off: 'R7',
    too: ['R8 sweep'],
    caught: ['L3'],
    first: 5,
    seeds: 40,
    course: mix('single', ['blip'], ['coordinator']),
  },
  { off: 'R8 sweep', caught: ['L3'], first: 37, seeds: 150, course: mix('single', ['blip'], ['gateway']) },
  { off: 'R25', caught: ['L3'], first: 13, seeds: 30, course: mix('single', ['blip'], ['gateway']) },
  {
    off: 'R27',
    caught: ['S2'],
    first: 3,
    seeds: 5,
    course: () => ({ ...mix('storm', ['blip', 'pause', 'lapse'], ['worker'])(), traffic: STREAM_TRAFFIC }),
  },
  { off: 'R28', caught: ['S6', 'L1'], seeds: 20, course: mix('storm', ['blip'], ['coordinator', 'worker']) },
  {
    off: 'R29',
    caught: ['L3'],
    first: 2,
    seeds: 40,
    course: () => ({ ...mix('single', ['evict'])(), blobs: true }),
  },
  {
    off: 'claims end',
    caught: ['S6'],
    first: 3,
    seeds: 20,
    course: () => ({ ...mix('storm', ['kill'], ['worker'])(), models: LIMITED_MODELS }),
  },
  { off: 'R36', caught: ['S6'], seeds: 5, course: mix('storm', ['kill'], ['gateway', 'worker']) },
];

const TIMEOUT_MS = 300_000;

async function isCaught({ off, too = [], caught, course }: Row, seed: number, isOff: boolean): Promise<boolean> {
  const switches = switchOff(...too, ...(isOff ? [off] : []));
  const { violations } = await simulate({ seed, switches, ...course(seed) });
  return violations.some(({ check }) => caught.includes(check));
}

test.each(ROWS)(
  'without $off something is found',
  async (row) => {
    const seed = await firstCaught(`${row.off} off`, row, (candidate) => isCaught(row, candidate, true));
    expect(await isCaught(row, seed, false), `seed ${seed} with the rule in`).toBe(false);
  },
  TIMEOUT_MS,
);

/** Courses in which it matters that the rule is out. */
const BACKSTOPS: readonly Pick<Row, 'off' | 'course'>[] = [
  {
    off: 'R4',
    course: () => ({
      ...mix('storm', ['lapse'], ['coordinator'])(),
      sizes: { gateway: 1, coordinator: 3, worker: 2 },
      network: { noticeLossShare: 1 },
    }),
  },
  { off: 'R5', course: mix('storm', ['lapse', 'blip'], ['coordinator']) },
  { off: 'R6', course: mix('storm', ['wipe', 'rollback', 'failover']) },
  { off: 'R9', course: () => ({ mix: MIXES.storm }) },
  { off: 'R10', course: mix('storm', ['pause', 'lapse'], ['worker']) },
  { off: 'R11', course: mix('storm', ['wipe', 'rollback', 'failover']) },
  { off: 'R24', course: () => ({ mix: MIXES.storm, msLeft: 500 }) },
  { off: 'R26', course: () => ({ mix: MIXES.storm }) },
  { off: 'R30', course: () => ({ mix: MIXES.storm, blobs: true }) },
  { off: 'epoch memory', course: mix('storm', ['wipe', 'rollback', 'failover']) },
];
const BACKSTOP_SEEDS = 4;

test.each(BACKSTOPS)(
  '$off alone is not missed: another rule stands behind it',
  async ({ off, course }) => {
    let changed: number | undefined;
    for (let seed = 1; seed <= BACKSTOP_SEEDS; seed++) {
      const { violations, trace } = await simulate({ seed, ...course(seed), switches: switchOff(off) });
      expect(violations, `seed ${seed}`).toEqual([]);
      if (changed === undefined && trace !== (await simulate({ seed, ...course(seed) })).trace) changed = seed;
    }
    expect(changed, 'the first seed in which it makes a difference').toBeDefined();
    if (VERBOSE) console.log(`${off} off: changes seed ${changed}`);
  },
  TIMEOUT_MS,
);
