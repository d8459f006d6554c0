import { commandOptions, endWithUsage } from '../command-options.mjs';
import { countLines, sumCounts } from './count-lines.mjs';
import { problemsOf } from './problems.mjs';
import { runRounds } from './rounds.mjs';
import { findPython } from './start-producer.mjs';

// Jobs and producers under faults, in rounds of half a minute, each on a cluster and a Redis of its own: HTTP jobs,
// producers in Node and Python, sequences as jobs and as requests, and plain requests, while a worker, the coordinator
// that owns the model and a gateway are killed and Redis is restarted (SIGTERM). Every accepted job is audited.
//   node test/faults/jobs-run.mjs [--rounds 20] [--redis-kill] [--round-s 30] [--time-scale 1]
// `--redis-kill`: Redis is killed (SIGKILL) in place of that, with `--jobs-fsync=always`. The exit code is 1 where
// anything is wrong.

const usage = 'node test/faults/jobs-run.mjs [--rounds 20] [--redis-kill] [--round-s 30] [--time-scale 1]';
const { values } = commandOptions({
  usage,
  options: {
    rounds: { type: 'string', default: '20' },
    'round-s': { type: 'string', default: '30' },
    'redis-kill': { type: 'boolean', default: false },
    'time-scale': { type: 'string', default: '1' },
  },
});
const rounds = Number(values.rounds);
const roundS = Number(values['round-s']);
const timeScale = Number(values['time-scale']);
if (!Number.isInteger(rounds) || rounds < 1) {
  endWithUsage(`--rounds=${values.rounds} is not allowed: give a whole number from 1 up`, usage);
}
if (!(roundS >= 0)) endWithUsage(`--round-s=${values['round-s']} is not allowed: give seconds`, usage);
if (!(timeScale > 0)) {
  endWithUsage(`--time-scale=${values['time-scale']} is not allowed: give a number above 0`, usage);
}
const form = values['redis-kill']
  ? { plan: [['kill', 'redis-kill']], fsync: 'always' }
  : { plan: [['kill', 'redis-restart']], fsync: 'everysec' };

const python = findPython();
if (python === undefined) {
  console.log('no Python with the package bullmq here (npm test installs one): there is no producer in Python');
}
const results = [];
let problemCount = 0;
for (let round = 0; round < rounds; round += 1) {
  const result = await runRounds({ ...form, timeScale, roundMs: roundS * 1000, mixed: true, python });
  const problems = problemsOf(result);
  problemCount += problems.length;
  results.push(result);
  console.log(`round ${round + 1}: ${summary([result])}; ${problems.length} problems`);
  for (const problem of problems) console.log(`  ${problem}`);
}
console.log(summary(results));
for (const line of countLines(sumCounts(results.map(({ jobCounts }) => jobCounts)))) console.log(line);
console.log(problemCount === 0 ? 'nothing wrong' : `${problemCount} problems`);
process.exitCode = problemCount === 0 ? 0 : 1;

function summary(of) {
  const requests = of.flatMap((one) => one.requests);
  const sequences = of.flatMap((one) => one.sequences);
  const outcomes = (all, names) =>
    names.map((name) => `${all.filter(({ outcome }) => outcome === name).length} ${name}`).join(', ');
  const jobs = of.reduce((sum, one) => sum + one.jobs.length, 0);
  const kept = of.reduce((sum, one) => sum + one.kept, 0);
  return [
    `${jobs} jobs accepted, ${kept} results kept`,
    `${requests.length} requests: ${outcomes(requests, ['right', 'wrong', 'refused', 'broken'])}`,
    ...(of.some(({ lapsed }) => lapsed.length > 0)
      ? [`${of.flatMap(({ lapsed }) => lapsed).length} workers cut off by a machine that stood still`]
      : []),
    `${sequences.length} sequences of requests: ${outcomes(sequences, ['right', 'lost', 'wrong', 'refused', 'broken'])}`,
  ].join('; ');
}
