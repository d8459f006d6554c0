import { parseArgs } from 'node:util';
import { FAULTS, medianGapMs, runRounds, unexcused } from './rounds.mjs';

// Faults under load, in rounds, and a check of what clients saw: `kill` a worker, a coordinator and a gateway in turn,
// `pause` each for 5 s, restart `redis`.
//   node test/faults/run.mjs [--rounds 10] [--faults kill,pause,redis]
// The exit code is 1 where anything is wrong.

const OWNER_GAP_MS_MAX = 3_000;
const HEALTHY_MS_MAX = 5_000;

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '10' }, faults: { type: 'string', default: 'kill' } },
});
const rounds = Number(values.rounds);
const faults = values.faults.split(',');
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error(`--rounds=${values.rounds} is not allowed: give a whole number from 1 up`);
  process.exit(2);
}
if (!faults.every((name) => Object.hasOwn(FAULTS, name))) {
  console.error(`--faults=${values.faults} is not allowed: give some of ${Object.keys(FAULTS).join(',')}`);
  process.exit(2);
}

const result = await runRounds({
  rounds,
  faults,
  tell: ({ round, kind, role, gapMs, slowestMs, joinMs, healthyMs, right, wrong, refused, broken }) => {
    const joined = joinMs === undefined ? '' : `, the new one answers after ${joinMs} ms`;
    console.log(
      `round ${round + 1}, ${kind} ${role}: ${right} right, ${wrong} wrong, ${refused} refused, ${broken} broken; longest gap ${gapMs} ms, slowest answer ${slowestMs} ms, all gateways answer after ${healthyMs} ms${joined}`,
    );
  },
});

const median = medianGapMs(result.faults, 'coordinator');
const problems = [
  ...unexcused(result).map(({ outcome, text }) => `${outcome}: ${text}`),
  ...[...result.left, ...result.leftAtEnd].map((what) => `left in Redis: ${what}`),
  ...result.endings.filter(({ code }) => code !== 0).map(({ code, output }) => `ended with ${code}:\n${output}`),
  ...result.faults
    .filter(({ healthyMs }) => healthyMs > HEALTHY_MS_MAX)
    .map(
      ({ round, kind, role, healthyMs }) => `round ${round + 1}, ${kind} ${role}: ${healthyMs} ms to be healthy again`,
    ),
  ...(median === undefined || median < OWNER_GAP_MS_MAX
    ? []
    : [`the gap after a coordinator's death is ${OWNER_GAP_MS_MAX} ms or more`]),
];
for (const problem of problems) console.log(problem);
console.log(`${result.requests.length} requests`);
if (median !== undefined) console.log(`median of the gaps after a coordinator's death: ${median} ms`);
process.exitCode = problems.length === 0 ? 0 : 1;
