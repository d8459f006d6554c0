/** What the journal costs: off, against a build that has none; on, against off. */
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { modelIn } from './bars-jobs.mjs';
import { pairedTurns } from './bars-paired.mjs';
import { commitOf } from './machine.mjs';
import { addSequenceSilero } from './models/silero.mjs';
import { nereidColumns } from './nereid-columns.mjs';
import { writeRequests } from './requests.mjs';
import { beginSequences, sequenceSteps } from './silero-steps.mjs';

const CLIENTS = 64;
const SEQUENCES = 8;
const SEQUENCE_BATCH = 16;
const [STATELESS, SEQUENCED] = ['add_sub', 'silero_vad'];
const OVER_BASE_MIN = 0.97;
const ON_OVER_OFF_MIN = 0.9;
/** Of the steps asked for while it is on: a recording may have a gap where Redis was late. */
const RECORDED_MIN = 0.99;

/** What is loaded, in which form, and who takes turns: the build without a journal, this one with it off, and on. */
const LOADS = [
  { model: STATELESS, form: 'one', sides: ['base', 'off'] },
  { model: STATELESS, form: 'apart', sides: ['base', 'off'] },
  { model: SEQUENCED, form: 'one', sides: ['base', 'off', 'on'] },
  { model: SEQUENCED, form: 'apart', sides: ['off', 'on'] },
];
const FORMS = { one: 'one process', apart: 'processes apart' };

/** `base` is the folder of another checkout, built; without it only on against off is measured. */
export async function journalBar({ folder, generator, times, base, say }) {
  if (generator.name !== 'Go') {
    say('journal: not run (several servers at a time are loaded by the generator in Go alone: install Go 1.22)');
    return [];
  }
  const baseCli = base === undefined ? undefined : await commandOf(resolve(base));
  if (base === undefined) say('off against a build without the journal: not run (give --base DIR, a built checkout)');
  else say(`base: commit ${commitOf(base)}`);
  const kinds = { [STATELESS]: await stateless(folder), [SEQUENCED]: sequenced(folder) };
  const patience = { left: times.patience * 1000 };
  const bars = [];
  for (const { model, form, sides } of LOADS) {
    const present = sides.filter((side) => side !== 'base' || baseCli !== undefined);
    if (present.length < 2) continue;
    const columns = present.map((side) => columnOf(side, form, baseCli));
    const what = `${kinds[model].what}, ${FORMS[form]}`;
    say(what);
    const place = join(folder, `${model}-${form}`);
    mkdirSync(place);
    const pairs = await pairedTurns({
      ...kinds[model],
      sides: present,
      columns,
      place,
      generator,
      times,
      patience,
      say,
    });
    bars.push(...barsOf(what, pairs));
  }
  return bars;
}

/** The command of another checkout, as that says itself: its bundle, or what the compiler wrote. */
async function commandOf(base) {
  const checkout = join(base, 'deploy', 'setup', 'checkout.mjs');
  if (!existsSync(checkout)) throw new Error(`--base: ${base} is no checkout: ${checkout} is not there`);
  const cli = (await import(pathToFileURL(checkout).href)).commandFile();
  if (!existsSync(cli)) throw new Error(`--base: ${base} is not built: ${cli} is not there`);
  return cli;
}

/** With the journal off this build is started like the other one: off is what it is unless a flag says more. */
function columnOf(side, form, baseCli) {
  const build = { base: { cli: baseCli }, off: {}, on: { workerFlags: ['--journal=on'] } }[side];
  const name = `${side}:${form}`;
  return nereidColumns({ prefix: `${side}:`, ...build }).find((column) => column.name === name);
}

/** Many small requests. */
async function stateless(folder) {
  const models = join(folder, 'models-stateless');
  const samples = await modelIn(models, STATELESS);
  const [column] = nereidColumns();
  const requests = writeRequests({ column, row: { model: STATELESS }, encoding: 'binary', samples, folder });
  const what = `${STATELESS}, ${CLIENTS} clients`;
  return { what, models, requests, concurrency: CLIENTS, begin: async () => {} };
}

/** Sequences with one step each on its way, begun anew for each turn. */
function sequenced(folder) {
  const models = join(folder, 'models-sequences');
  addSequenceSilero(models, { name: SEQUENCED, maxBatchSize: SEQUENCE_BATCH });
  return {
    what: `${SEQUENCED}, ${SEQUENCES} sequences`,
    models,
    requests: sequenceSteps(SEQUENCED, SEQUENCES, join(folder, 'steps')),
    concurrency: SEQUENCES,
    begin: (server) => beginSequences(server, SEQUENCED, SEQUENCES),
    recorded: newSteps,
  };
}

/**
 * The steps of recordings that are not among `seen`, to which they are added. The first step of each is that of `begin`,
 * and one is the generator's look whether the server answers.
 */
async function newSteps({ port }, seen) {
  let steps = 0;
  const query = new URLSearchParams({ model: SEQUENCED });
  do {
    const response = await fetch(`http://127.0.0.1:${port}/nereid/v1/journal?${query}`);
    if (!response.ok) return { steps, why: `GET /nereid/v1/journal answers ${response.status}` };
    const { recordings, next } = await response.json();
    for (const { id, steps: count } of recordings.filter((recording) => !seen.has(recording.id))) {
      seen.add(id);
      steps += count;
    }
    query.set('after', next ?? '');
  } while (query.get('after') !== '');
  return { steps: Math.max(0, steps - SEQUENCES - 1) };
}

const atLeast = (what, value, least) => ({
  what,
  figure: value.toFixed(3),
  bar: `at least ${least}`,
  holds: value >= least,
});

function barsOf(what, { ratios, recorded }) {
  const bars = [];
  const overBase = ratios['off/base'];
  const overOff = ratios['on/off'];
  if (overBase !== undefined)
    bars.push(atLeast(`${what}: requests/s with the journal off over a build without`, overBase, OVER_BASE_MIN));
  if (overOff !== undefined) {
    bars.push(atLeast(`${what}: requests/s with the journal on over off`, overOff, ON_OVER_OFF_MIN));
    bars.push(atLeast(`${what}: steps recorded of those answered`, recorded, RECORDED_MIN));
  }
  return bars;
}
