import { createLog, virtualClock } from '@nereid/runtime';
import type { Worker } from 'bullmq';
import { expect, test } from 'vitest';
import { createScriptMover } from './jobs-script-mover.ts';
import type { JobScripts, RawJob } from './jobs-scripts.ts';

const ROUNDS = 60;
const JOB: RawJob = ['1', '{}', '{}', '0', 1, '0', null];

/** Takes and waits in turn; each wait ends at once. How often it was paused. */
async function pauses(jobs: readonly RawJob[]): Promise<number> {
  let paused = 0;
  const worker = { backend: { waitForJob: async () => ({ score: 0 }) } } as unknown as Worker;
  const scripts = { turn: async () => ({ codes: [], jobs, limitMs: 0, dueMs: 0 }) } as unknown as JobScripts;
  const mover = createScriptMover({
    worker,
    scripts,
    clock: virtualClock(),
    log: createLog({ level: 'silent' }),
    queue: 'infer.m',
    lockMs: 1_000,
    by: 'co-1',
    alone: false,
    holdWrites: () => {},
    token: () => 'co-1:1',
    room: () => 2,
    arrived: () => {},
    pause: async () => {
      paused += 1;
    },
  });
  for (let round = 0; round < ROUNDS; round++) {
    await mover.take(2);
    await mover.wait();
  }
  return paused;
}

test('jobs that come soon one after the other are taken at once, each', async () => {
  expect(await pauses([JOB])).toBe(0);
});

test('waits that end at once with nothing to take are not repeated without a pause', async () => {
  expect(await pauses([])).toBeGreaterThan(ROUNDS / 2);
});
