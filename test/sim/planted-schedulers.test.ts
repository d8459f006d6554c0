/** Faults planted in the scheduler, each of which a check of the simulator must notice within a few seeds. */
import { expect, test, vi } from 'vitest';
import { MIXES } from './sim-mixes.ts';
import { simulate } from './simulate.ts';

type SchedulerModule = typeof import('@nereid/scheduler');
type Plant = 'too many rows' | 'mixed shapes' | 'lost waiter';

const planted = vi.hoisted(() => ({ fault: undefined as string | undefined }));

/** Every so many requests one is lost. */
const LOST_EVERY = 40;
const SEEDS_MAX = 3;

vi.mock('@nereid/scheduler', async (importOriginal) => {
  const original = await importOriginal<SchedulerModule>();
  const createScheduler: SchedulerModule['createScheduler'] = (config, options) => {
    const scheduler = original.createScheduler<never>(config, options);
    let arrivals = 0;
    const step: typeof scheduler.step = (event, nowUs) => {
      if (event.type !== 'arrived') return scheduler.step(event, nowUs);
      if (planted.fault === 'lost waiter' && ++arrivals % LOST_EVERY === 0) return [];
      const request: object = event.request;
      const wrong =
        planted.fault === 'too many rows' ? { rows: 1 } : planted.fault === 'mixed shapes' ? { shapeKey: '' } : {};
      return scheduler.step({ type: 'arrived', request: { ...request, ...wrong } as never }, nowUs);
    };
    return {
      get waiting() {
        return scheduler.waiting;
      },
      step,
    };
  };
  return { ...original, createScheduler };
});

async function firstCaught(fault: Plant | undefined): Promise<readonly string[]> {
  planted.fault = fault;
  for (let seed = 1; seed <= SEEDS_MAX; seed++) {
    const { violations } = await simulate({ seed, mix: MIXES.none });
    if (violations.length > 0) return violations.map(({ check }) => check);
  }
  return [];
}

test('without a plant nothing is found', async () => {
  expect(await firstCaught(undefined)).toEqual([]);
});

test.each([
  ['too many rows', 'batch'],
  ['mixed shapes', 'batch'],
  ['lost waiter', 'L3'],
] as const)('%s is caught', async (fault, check) => {
  expect(await firstCaught(fault)).toContain(check);
});
