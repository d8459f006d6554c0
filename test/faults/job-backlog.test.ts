import { expect, test } from 'vitest';
import { runBacklog } from './job-backlog.mjs';

// A short form; `node test/faults/queued-jobs.mjs` queues 100,000, holds what memory they take, and has the round in
// which a worker was there before.
const JOBS = 800;
const WARM_UP = 100;
const IDLE_MS = 100;
const LIMIT_MS = 120_000;

test(
  'jobs that are queued without a worker are run once one joins, each once, the oldest first within a priority',
  async () => {
    const { results, endings } = await runBacklog({ jobs: JOBS, warmUp: WARM_UP, idleMs: IDLE_MS, rounds: ['never'] });
    expect(results.map(({ problems }) => problems)).toEqual([[]]);
    expect(results[0]?.kept).toBe(JOBS);
    for (const { code, output } of endings) expect(code, output).toBe(0);
  },
  LIMIT_MS,
);
