import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandOptions } from '../command-options.mjs';

// Simulates the cluster under any number of seeds:
//   pnpm sim [--seed N] [--seeds M] [--mix none|single|storm] [--course NAME] [--verbose]
// A course is what runs under the seeds: models, streams, queues, limits, sequences or handovers; without one, each has its share.
// Each seed that fails prints the command that repeats it. The exit code is 1 if any failed.

const { values } = commandOptions({
  usage: 'pnpm sim [--seed N] [--seeds M] [--mix none|single|storm] [--course NAME] [--verbose]',
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '100' },
    mix: { type: 'string' },
    course: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
});
for (const name of ['seed', 'seeds']) {
  if (!/^[1-9]\d*$/.test(values[name])) fail(`--${name} takes a number from 1, not '${values[name]}'`);
}
if (values.mix !== undefined && !['none', 'single', 'storm'].includes(values.mix)) {
  fail(`--mix takes none, single or storm, not '${values.mix}'`);
}

const COURSES = ['models', 'streams', 'queues', 'limits', 'sequences', 'handovers'];
if (values.course !== undefined && !COURSES.includes(values.course)) {
  fail(`--course takes ${COURSES.join(', ')}, not '${values.course}'`);
}

/** The cluster; a queue, the rate limiters, the rules for sequences and for ensembles by themselves. */
const FILES = (
  values.course === undefined ? ['faults', 'queues', 'limiters', 'sequence-queues', 'ensemble-runs'] : ['faults']
).map((name) => `test/sim/${name}.test.ts`);

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { status } = spawnSync(
  process.execPath,
  [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', '--root', root, ...FILES],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      NEREID_SIM_SEED: values.seed,
      NEREID_SIM_SEEDS: values.seeds,
      ...(values.mix === undefined ? {} : { NEREID_SIM_MIX: values.mix }),
      ...(values.course === undefined ? {} : { NEREID_SIM_COURSE: values.course }),
      ...(values.verbose ? { NEREID_SIM_VERBOSE: '1' } : {}),
    },
  },
);
process.exitCode = status ?? 1;

function fail(text) {
  console.error(text);
  process.exit(2);
}
