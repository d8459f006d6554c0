/**
 * Wrong rules of queues, of ordered answers and of resources in a whole cluster, each of which a check at the owners or
 * at the models must notice within so many seeds.
 */
import { afterEach, expect, test, vi } from 'vitest';
import { createWrongLimiter, type LimiterPlant } from './limiter-plants.ts';
import { type OrderPlant, plantOrder } from './order-plants.ts';
import { plantQueue, type QueuePlant } from './queue-plants.ts';
import { firstCaught } from './seeds.ts';
import type { CheckName } from './sim-checks.ts';
import { MIXES, targeted } from './sim-mixes.ts';
import { LIMITED_MODELS, QUEUE_MODELS } from './sim-models.ts';
import { type Mix, simulate } from './simulate.ts';

type SchedulerModule = typeof import('@nereid/scheduler');

const planted = vi.hoisted(() => ({
  queue: undefined as QueuePlant | undefined,
  order: undefined as OrderPlant | undefined,
  limiter: undefined as LimiterPlant | undefined,
}));

vi.mock('@nereid/scheduler', async (importOriginal) => {
  const original = await importOriginal<SchedulerModule>();
  const createScheduler: SchedulerModule['createScheduler'] = (config, options) =>
    plantQueue(original.createScheduler, planted.queue)(config, options);
  const createReleaseOrder: SchedulerModule['createReleaseOrder'] = (discarded) =>
    plantOrder(original.createReleaseOrder(discarded), planted.order);
  const createRateLimiter: SchedulerModule['createRateLimiter'] = (explicit) =>
    planted.limiter === undefined ? original.createRateLimiter(explicit) : createWrongLimiter(planted.limiter);
  return { ...original, createScheduler, createReleaseOrder, createRateLimiter };
});

const SEARCH = { seeds: 50 };
const TIMEOUT_MS = 120_000;
const LOST_WORKERS = targeted('storm', ['kill', 'kill', 'blip'], ['worker']);

interface Row {
  readonly what: string;
  readonly plant: Partial<typeof planted>;
  readonly mix: Mix;
  readonly check: CheckName;
}

const queue = (what: QueuePlant, check: CheckName): Row => ({ what, plant: { queue: what }, mix: MIXES.none, check });

const ROWS: readonly Row[] = [
  queue('too many rows', 'batch'),
  queue('mixed shapes', 'batch'),
  queue('lost request', 'L3'),
  queue('levels ignored', 'priority'),
  queue('forming batch kept', 'priority'),
  queue('expired not rejected', 'timeout'),
  queue('expired rejected late', 'timeout'),
  queue('expired rejected after dispatch', 'timeout'),
  queue('delayed rejected', 'timeout'),
  queue('larger override taken', 'timeout'),
  queue('size counts executing', 'size'),
  queue('cancelled dispatched', 'cancel'),
  { what: 'answers as they come', plant: { order: 'as they come' }, mix: MIXES.none, check: 'order' },
  { what: 'a lost batch loses its place', plant: { order: 'lost place' }, mix: LOST_WORKERS, check: 'order' },
  { what: 'resources released twice', plant: { limiter: 'released twice' }, mix: MIXES.none, check: 'resources' },
  { what: 'resources released at once', plant: { limiter: 'released at once' }, mix: MIXES.none, check: 'resources' },
  {
    what: 'a global resource counted per worker',
    plant: { limiter: 'global counted per worker' },
    mix: MIXES.none,
    check: 'resources',
  },
];

const UNPLANTED: typeof planted = { queue: undefined, order: undefined, limiter: undefined };
afterEach(() => Object.assign(planted, UNPLANTED));

async function isCaught({ plant, mix, check }: Row, seed: number, isPlanted: boolean): Promise<boolean> {
  Object.assign(planted, isPlanted ? plant : UNPLANTED);
  const models = plant.limiter === undefined ? QUEUE_MODELS : LIMITED_MODELS;
  const { violations } = await simulate({ seed, mix, models });
  return violations.some((violation) => violation.check === check);
}

test.each(ROWS)(
  '$what: noticed',
  async (row) => {
    const seed = await firstCaught(row.what, SEARCH, (candidate) => isCaught(row, candidate, true));
    expect(await isCaught(row, seed, false), `seed ${seed} with the right rule`).toBe(false);
  },
  TIMEOUT_MS,
);
