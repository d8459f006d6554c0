import { commandOptions } from '../command-options.mjs';
import { countLines } from './count-lines.mjs';
import { gapsMs, medianGapMs } from './figures.mjs';
import { latenessOf, problemsOf } from './problems.mjs';
import { REDIS_FORMS } from './redis-forms.mjs';
import { FAULTS, runRounds } from './rounds.mjs';

// Faults under a mixed load, in rounds, and a check of what clients saw: `kill` a worker, a coordinator and a gateway
// in turn, `pause` each for 5 s, end `redis` by SIGTERM, by SIGKILL and for 6 s. On a Redis Cluster, or on one with a Sentinel, where `failover` kills
// the primary:
//   node test/faults/run.mjs [--rounds 10] [--faults kill,pause,redis] [--time-scale 1]
//   node test/faults/run.mjs --redis cluster [--faults kill,pause]
//   node test/faults/run.mjs --redis sentinel [--faults kill,pause,failover]
// The exit code is 1 where anything is wrong.

const { values } = commandOptions({
  usage:
    'node test/faults/run.mjs [--rounds 10] [--faults kill,pause,redis] [--redis single|cluster|sentinel] [--time-scale 1]',
  options: {
    rounds: { type: 'string', default: '10' },
    faults: { type: 'string', default: 'kill' },
    redis: { type: 'string', default: 'single' },
    'time-scale': { type: 'string', default: '1' },
  },
});
const rounds = Number(values.rounds);
const faults = values.faults.split(',');
const timeScale = Number(values['time-scale']);
if (!Number.isInteger(rounds) || rounds < 1) {
  fail(`--rounds=${values.rounds} is not allowed: give a whole number from 1 up`);
}
if (!faults.every((name) => Object.hasOwn(FAULTS, name))) {
  fail(`--faults=${values.faults} is not allowed: give some of ${Object.keys(FAULTS).join(',')}`);
}
const form = values.redis;
if (!Object.hasOwn(REDIS_FORMS, form)) {
  fail(`--redis=${form} is not allowed: give one of ${Object.keys(REDIS_FORMS).join(', ')}`);
}
const ofRedis = Object.values(REDIS_FORMS).flatMap((one) => one.faults);
const foreign = faults.find((name) => ofRedis.includes(name) && !REDIS_FORMS[form].faults.includes(name));
if (foreign !== undefined) fail(`--faults=${foreign} is not of --redis=${form}`);
if (!(timeScale > 0)) fail(`--time-scale=${values['time-scale']} is not allowed: give a number above 0`);

function fail(text) {
  console.error(text);
  process.exit(2);
}

const result = await runRounds({
  plan: Array(rounds).fill(faults),
  form,
  timeScale,
  tell: (fault) => console.log(line(fault)),
});

function line({ round, kind, role, gapMs, slowestMs, joinMs, healthyMs, right, wrong, refused, broken, stale }) {
  return [
    `round ${round + 1}, ${kind} ${role}: ${right} right, ${wrong} wrong, ${refused} refused, ${broken} broken`,
    `longest gap ${gapMs} ms, slowest answer ${slowestMs} ms, all healthy after ${healthyMs} ms`,
    ...(joinMs === undefined ? [] : [`the new one answers after ${joinMs} ms`]),
    ...(stale === undefined
      ? []
      : [
          `stale messages refused: ${Object.entries(stale)
            .map(([by, n]) => `${n} by ${by}s`)
            .join(', ')}`,
        ]),
  ].join('; ');
}

const problems = [...problemsOf(result), ...latenessOf(result, { timeScale })];
for (const problem of problems) console.log(problem);
const { requests, jobs, kept } = result;
const countOf = (outcome) => requests.filter((one) => one.outcome === outcome).length;
console.log(
  `${requests.length} requests: ${countOf('right')} right, ${countOf('wrong')} wrong, ${countOf('refused')} refused, ${countOf('broken')} broken`,
);
console.log(`${jobs.length} jobs accepted, ${kept} results kept`);
for (const line of countLines(result.jobCounts)) console.log(line);
for (const role of ['worker', 'coordinator', 'gateway']) {
  const gaps = gapsMs(result.faults, role);
  if (gaps.length > 0)
    console.log(`gaps after a ${role}'s death: ${gaps.join(', ')} ms; median ${medianGapMs(result.faults, role)} ms`);
}
for (const text of result.excusedJobs) console.log(`excused by the death of Redis: ${text}`);
console.log(problems.length === 0 ? 'nothing wrong' : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
