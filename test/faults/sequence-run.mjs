import { commandOptions } from '../command-options.mjs';
import { runSequenceRounds } from './sequence-rounds.mjs';

// Sequences through faults, and a check of every answer: the owner of their model is killed every 5 s for a minute, a
// worker is killed, a worker is asked to stop:
//   node test/faults/sequence-run.mjs [--kills 12] [--every-ms 5000] [--rounds coordinator,worker,drain]
// The exit code is 1 where anything is wrong.

const NAMES = ['coordinator', 'worker', 'drain'];
const { values } = commandOptions({
  usage: 'node test/faults/sequence-run.mjs [--kills 12] [--every-ms 5000] [--rounds coordinator,worker,drain]',
  options: {
    kills: { type: 'string', default: '12' },
    'every-ms': { type: 'string', default: '5000' },
    rounds: { type: 'string', default: NAMES.join(',') },
  },
});
const kills = wholeNumber('kills');
const everyMs = wholeNumber('every-ms');
const rounds = values.rounds.split(',');
if (!rounds.every((name) => NAMES.includes(name))) {
  fail(`--rounds=${values.rounds} is not allowed: give some of ${NAMES.join(',')}`);
}

function wholeNumber(name) {
  const number = Number(values[name]);
  if (!Number.isInteger(number) || number < 1)
    fail(`--${name}=${values[name]} is not allowed: give a whole number from 1 up`);
  return number;
}

function fail(text) {
  console.error(text);
  process.exit(2);
}

const { left, endings } = await runSequenceRounds({
  kills,
  everyMs,
  rounds,
  tell({ name, sequences, steps, right, lost, drainMs, problems }) {
    const drained = drainMs === undefined ? '' : `; the worker had ended after ${drainMs} ms`;
    console.log(`${name}: ${sequences} sequences, ${steps} steps: ${right} right, ${lost} lost${drained}`);
    for (const problem of problems) console.log(`  ${problem}`);
    if (problems.length > 0) process.exitCode = 1;
  },
});
for (const text of left) console.log(text);
for (const { code, output } of endings) {
  if (code !== 0) console.log(`ended with ${code}:\n${output}`);
}
if (left.length > 0 || endings.some(({ code }) => code !== 0)) process.exitCode = 1;
console.log(process.exitCode === 1 ? 'something is wrong' : 'nothing wrong');
