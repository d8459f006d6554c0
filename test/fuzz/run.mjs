import { commandOptions, endWithUsage } from '../command-options.mjs';
import { runFuzz } from './fuzz.mjs';

// Sends drawn and mutated requests to real servers and checks every answer:
//   node test/fuzz/run.mjs [--requests 20000] [--seed N] [--mode one|apart] [--only http|grpc]
//   node test/fuzz/run.mjs --replay SEED:INDEX[:STEPS] [--mode one|apart] [--only http|grpc]
// A request that is not answered as it must be is shrunk, written to .cache/fuzz and told with the command that sends it
// again (--only must be as it was). The exit code is 1 if anything was wrong.

const REQUESTS = 20_000;
const SEED_MAX = 2 ** 31;

const USAGE =
  'node test/fuzz/run.mjs [--requests 20000] [--seed N] [--replay SEED:INDEX[:STEPS]] [--mode one|apart] [--only http|grpc]';

const { values } = commandOptions({
  usage: USAGE,
  options: {
    requests: { type: 'string', default: String(REQUESTS) },
    seed: { type: 'string' },
    mode: { type: 'string', default: 'one' },
    only: { type: 'string' },
    replay: { type: 'string' },
  },
});
const seed = values.seed ?? String(Math.floor(Math.random() * SEED_MAX));
if (!/^\d+$/.test(seed)) fail(`--seed takes a number, not '${seed}'`);
if (!/^[1-9]\d*$/.test(values.requests)) fail(`--requests takes a number from 1, not '${values.requests}'`);
if (!['one', 'apart'].includes(values.mode)) fail(`--mode takes one or apart, not '${values.mode}'`);
if (![undefined, 'http', 'grpc'].includes(values.only)) fail(`--only takes http or grpc, not '${values.only}'`);

console.log(`seed ${seed}, mode ${values.mode}${values.only === undefined ? '' : `, ${values.only} only`}`);
const start = performance.now();
const result = await runFuzz({
  mode: values.mode,
  requests: Number(values.requests),
  seed: Number(seed),
  only: values.only,
  plans: values.replay === undefined ? undefined : [planOf(values.replay)],
  log: console.log,
});
for (const problem of result.problems) console.log(problem);
const seconds = ((performance.now() - start) / 1000).toFixed(1);
const counts = Object.entries(result.answered).sort(([a], [b]) => (a < b ? -1 : 1));
console.log(`answers: ${counts.map(([status, count]) => `${status} ${count}`).join(', ')}`);
console.log(
  `${result.sent} requests, ${result.failures.length} failed, ${result.problems.length} other problems (${seconds} s)`,
);
process.exitCode = result.failures.length + result.problems.length === 0 ? 0 : 1;

function planOf(text) {
  const [, ofSeed, index, kept] = /^(\d+):(\d+)(?::([\d,]*))?$/.exec(text) ?? [];
  if (ofSeed === undefined) fail(`--replay takes SEED:INDEX or SEED:INDEX:STEPS, not '${text}'`);
  const places =
    kept === undefined
      ? undefined
      : kept
          .split(',')
          .filter((place) => place !== '')
          .map(Number);
  return { seed: Number(ofSeed), index: Number(index), kept: places };
}

function fail(text) {
  endWithUsage(text, USAGE);
}
