import { availableParallelism } from 'node:os';
import { defaultExclude, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const WORKERS_MIN = 3;

/** Tests that replace modules or timers, or change their process. */
const ALONE = [
  'packages/runtime/src/clock.test.ts',
  'packages/worker/src/process-carrier.test.ts',
  'test/sim/planted-cluster.test.ts',
];

/** Those that take long come first, so that at the end no process runs alone. */
const LONG_FIRST = ['test/sim/', 'test/fuzz/', 'test/faults/', 'test/e2e/'];

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const turn = ({ moduleId }: TestSpecification) => {
      const at = LONG_FIRST.findIndex((folder) => moduleId.includes(`/${folder}`));
      return at < 0 ? LONG_FIRST.length : at;
    };
    return sorted.toSorted((a, b) => turn(a) - turn(b));
  }
}

// Tests import the sources through the "source" export condition; instance threads run from dist.
export default defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  test: {
    projects: [
      // Each file loads the sources anew unless it shares them: that took as long as the tests themselves.
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...defaultExclude, ...ALONE],
          isolate: false,
        },
      },
      { extends: true, test: { name: 'alone', include: ALONE, sequence: { groupOrder: 1 } } },
    ],
    sequence: { sequencer: LongFirst },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // One second, the default, is too short where several test files share a core.
    expect: { poll: { timeout: 10_000 } },
    pool: 'forks',
    // One less than there are cores, the default, is one on two of them, though most files wait for other processes.
    maxWorkers: Math.max(WORKERS_MIN, availableParallelism() - 1),
  },
});
