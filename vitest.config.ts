import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

const WORKERS_MIN = 2;

/** Tests of packages that replace modules or timers, or change their process. */
const ISOLATED = ['packages/runtime/src/clock.test.ts', 'packages/worker/src/process-carrier.test.ts'];

// Tests import the sources through the "source" export condition; instance threads run from dist.
export default defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  test: {
    projects: [
      // Each file loads the sources anew unless it shares them: that took as long as the tests themselves.
      {
        extends: true,
        test: { name: 'units', include: ['packages/*/src/**/*.test.ts'], exclude: ISOLATED, isolate: false },
      },
      { extends: true, test: { name: 'wholes', include: ['test/**/*.test.ts', ...ISOLATED] } },
    ],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // One second, the default, is too short where several test files share a core.
    expect: { poll: { timeout: 10_000 } },
    pool: 'forks',
    // One less than there are cores, the default, is one on two of them, though most files wait for other processes.
    maxWorkers: Math.max(WORKERS_MIN, availableParallelism() - 1),
  },
});
