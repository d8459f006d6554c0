import { commandOptions } from '../command-options.mjs';
import { runBacklog } from './job-backlog.mjs';

// Jobs that are queued while no worker lives, and drained when one joins: none is lost or run twice, the oldest first
// within a priority, and gateway and coordinator need no more memory for them. In the round `never` no worker has been
// there before, in `left` one was and left:
//   node test/faults/queued-jobs.mjs [--jobs 100000] [--rounds never,left]
// The exit code is 1 where anything is wrong.

const ROUNDS = ['never', 'left'];
/** Of a gateway's memory, from a tenth of the jobs to all of them. */
const GROWTH_MIB_MAX = 50;
const WARM_UP_PARTS = 10;
const IDLE_MS = 3_000;
/** Commands a second that a full queue may add to those of an empty one. */
const IDLE_COMMANDS_MAX = 5;
const mib = (bytes) => (bytes / 2 ** 20).toFixed(1);

const { values } = commandOptions({
  usage: 'node test/faults/queued-jobs.mjs [--jobs 100000] [--rounds never,left]',
  options: { jobs: { type: 'string', default: '100000' }, rounds: { type: 'string', default: ROUNDS.join(',') } },
});
const jobs = Number(values.jobs);
if (!Number.isInteger(jobs) || jobs < WARM_UP_PARTS) {
  fail(`--jobs=${values.jobs} is not allowed: give a whole number from ${WARM_UP_PARTS} up`);
}
const rounds = values.rounds.split(',');
if (!rounds.every((name) => ROUNDS.includes(name))) {
  fail(`--rounds=${values.rounds} is not allowed: give some of ${ROUNDS.join(',')}`);
}

function fail(text) {
  console.error(text);
  process.exit(2);
}

const { endings } = await runBacklog({
  jobs,
  warmUp: Math.ceil(jobs / WARM_UP_PARTS),
  idleMs: IDLE_MS,
  rounds,
  tell({ name, submitMs, drainMs, kept, growth, full, idleBefore, idleFull, problems }) {
    const rate = (ms) => `${(ms / 1000).toFixed(1)} s, ${((jobs * 1000) / ms).toFixed(0)} a second`;
    console.log(`${name}: ${jobs} jobs queued in ${rate(submitMs)}; drained in ${rate(drainMs)}; ${kept} kept`);
    for (const [role, { rss, heap }] of Object.entries(growth)) {
      const now = `${mib(full[role].rss)} MiB resident, heap ${mib(full[role].heapUsed)}`;
      console.log(`  ${role}: from a tenth of the jobs to all ${mib(rss)} MiB more, heap ${mib(heap)} (then ${now})`);
      if (rss > GROWTH_MIB_MAX * 2 ** 20) problems.push(`the ${role} grew by more than ${GROWTH_MIB_MAX} MiB`);
    }
    console.log(
      `  Redis was sent ${idleFull.toFixed(1)} commands a second while all waited, ${idleBefore.toFixed(1)} before`,
    );
    if (idleFull > idleBefore + IDLE_COMMANDS_MAX) problems.push('the waiting jobs are polled');
    for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`);
    if (problems.length > 0) {
      console.log(`  ${problems.length} problems`);
      process.exitCode = 1;
    }
  },
});
for (const { code, output } of endings) {
  if (code === 0) continue;
  console.log(`ended with ${code}:\n${output}`);
  process.exitCode = 1;
}
console.log(process.exitCode === 1 ? 'something is wrong' : 'nothing wrong');
