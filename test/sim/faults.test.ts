/**
 * Gateways, coordinators and workers over one Redis, under seeds that say what goes wrong: the real
 * roles on the real transport and directory, simulated connections, Redis, threads and clients.
 *
 * One seed again, or many: pnpm sim --seed 17 --seeds 1 [--mix none|single|storm] [--course sequences] [--verbose]
 */
import { describe, expect, test } from 'vitest';
import { SEEDS_COUNT, seedsFrom, VERBOSE } from './seeds.ts';
import { MIXES, type MixName, mixOf, targeted } from './sim-mixes.ts';
import { LIMITED_MODELS, QUEUE_MODELS, SEQUENCE_MODELS, STREAM_TRAFFIC } from './sim-models.ts';
import { type SimReport, type Simulation, simulate } from './simulate.ts';

const MIX = process.env.NEREID_SIM_MIX as MixName | undefined;
/** All by default. */
const COURSE = process.env.NEREID_SIM_COURSE;

interface Course {
  readonly name: string;
  readonly seeds: number;
  readonly course: (mix: MixName) => Partial<Simulation>;
}

/** None that takes a sequence's worker or its gateway. */
const OWNER_FAULTS = ['kill', 'kill', 'leave', 'join', 'pause', 'stutter', 'partition', 'blip', 'lapse'] as const;
const SEQUENCES_US = 4_000_000;

const COURSES: readonly Course[] = [
  { name: 'models', seeds: SEEDS_COUNT, course: () => ({}) },
  { name: 'streams', seeds: SEEDS_COUNT / 10, course: () => ({ traffic: STREAM_TRAFFIC }) },
  { name: 'queues', seeds: SEEDS_COUNT / 5, course: () => ({ models: QUEUE_MODELS }) },
  // A lost notice costs who waits for resources a second: as many as elsewhere would be an overload.
  {
    name: 'limits',
    seeds: SEEDS_COUNT / 5,
    course: (mix) => ({ models: LIMITED_MODELS, network: { noticeLossShare: mix === 'none' ? 0 : 0.02 } }),
  },
  {
    name: 'sequences',
    seeds: SEEDS_COUNT,
    course: () => ({ models: SEQUENCE_MODELS, trafficUs: SEQUENCES_US }),
  },
  {
    name: 'handovers',
    seeds: SEEDS_COUNT / 5,
    course: (mix) => ({
      models: SEQUENCE_MODELS,
      trafficUs: SEQUENCES_US,
      keepsSequences: true,
      network: { slowShare: 0 },
      mix: targeted(mix, OWNER_FAULTS, ['coordinator']),
    }),
  },
];
const RUNS = COURSES.filter(({ name }) => COURSE === undefined || COURSE === name).flatMap(({ name, seeds, course }) =>
  seedsFrom(COURSE === undefined ? Math.ceil(seeds) : SEEDS_COUNT).map((seed) => ({ name, seed, course })),
);

const totals: Record<string, number> = {};
let longestWaitUs = 0;

function count({ counts, events, longestWaitUs: wait }: SimReport): void {
  for (const [what, number] of [...Object.entries(counts), ['events', events] as const]) {
    totals[what] = (totals[what] ?? 0) + number;
  }
  longestWaitUs = Math.max(longestWaitUs, wait);
}

/** Of every second seed half of the workers record. */
const RECORDED_SEEDS = 2;

/** A run that never ends is a failure of the seed, not of the machine. */
const SEED_TIMEOUT_MS = 60_000;

describe('what must hold, holds', () => {
  test.each(RUNS)(
    'with $name, seed $seed',
    async ({ name, seed, course }) => {
      const mix = MIX ?? mixOf(seed);
      const notes: string[] = [];
      const report = await simulate({
        seed,
        mix: MIXES[mix],
        ...course(mix),
        records: seed % RECORDED_SEEDS === 0,
        note: (text) => notes.push(text),
      });
      count(report);
      if (VERBOSE)
        console.log([`with ${name}, seed ${seed}, ${mix}: ${JSON.stringify(report.counts)}`, ...notes].join('\n  '));
      const failures = report.violations.map(({ check, text }) => `${check} ${text}`);
      const again = `again with: pnpm sim --seed ${seed} --seeds 1 --mix ${mix} --course ${name}`;
      expect(failures, `${again}\n${notes.join('\n')}\n`).toEqual([]);
    },
    SEED_TIMEOUT_MS,
  );

  test('one seed is one course of events', async () => {
    const [first, second] = await Promise.all([1, 1].map((seed) => simulate({ seed, mix: MIXES.storm })));
    expect(first?.trace).toBe(second?.trace);
    expect(first?.events).toBeGreaterThan(1_000);
  });

  test('all kinds of outcomes came up', () => {
    if (VERBOSE || SEEDS_COUNT > 100) console.log({ ...totals, longestWaitUs });
    if (SEEDS_COUNT >= 100 && MIX === undefined && COURSE === undefined)
      expect(totals).toMatchObject({
        ok: expect.any(Number),
        UNAVAILABLE: expect.any(Number),
        stream_broken: expect.any(Number),
        sequence_lost: expect.any(Number),
      });
  });
});
