/** What batching must win, and what a server may lose against raw session.run. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { COLUMNS } from './columns.mjs';
import { missingModel, startServers, takeTurns, writeModels } from './engine.mjs';
import { busySeconds } from './proc-cpu.mjs';
import { startRaw } from './raw-column.mjs';
import { samplesOf, writeRequests } from './requests.mjs';
import { summary } from './statistics.mjs';
import { turn } from './turns.mjs';

const CLIENTS = 32;
const BATCHING_MIN = 4;
const RAW_SHARE_MIN = 0.85;
/** Seconds of turns that may be repeated, per bar. */
const REPEAT_S = 60;
/** How long a bar waits, over all its turns, for moments in which nothing else runs. */
const PATIENCE_MS = 120_000;
const LOOK_MS = 400;
const BUSY_CORES_MAX = 0.25;
/** Quiet turns that are enough to leave the others out. */
const QUIET_MIN = 3;

const ONE = COLUMNS.find(({ name }) => name === 'one');

/** `mlp_1024x8`: dynamic batching against none, and none against raw session.run at batch 1. */
export async function batchingBar(context) {
  const turns = await besideRaw(context, { model: 'mlp_1024x8', raw: 1, variants: ['batching off', 'batching on'] });
  const [raw, off, on] = ['raw 1', 'batching off', 'batching on'].map((name) => turns[name].rps.median);
  return [
    bar('mlp_1024x8, dynamic batching over batching off', on / off, BATCHING_MIN),
    bar('mlp_1024x8, batching off over raw session.run at batch 1', off / raw, RAW_SHARE_MIN),
  ];
}

/** MiniLM in batches of 8 against raw session.run at batch 8. */
export async function minilmBar(context) {
  const turns = await besideRaw(context, { model: 'minilm', raw: 8, variants: ['batching on'] });
  const share = turns['batching on'].rps.median / turns['raw 8'].rps.median;
  return [bar('MiniLM int8, 32 tokens, over raw session.run at batch 8', share, RAW_SHARE_MIN)];
}

const bar = (what, value, least) => ({
  what,
  figure: value.toFixed(2),
  bar: `at least ${least}`,
  holds: value >= least,
});

/** Alternating turns of raw session.run and of one process of Nereid per variant; each one's summary. */
async function besideRaw({ folder, generator, times, say }, { model, raw, variants }) {
  const models = writeModels(join(folder, 'models'));
  const why = missingModel(models, { model });
  if (why !== undefined) throw new Error(`${model}: ${why}`);
  const samples = await samplesOf(models, model);
  const harness = startRaw(models);
  const running = [];
  try {
    await harness.load(model, samples);
    const runs = [
      {
        name: `raw ${raw}`,
        take: () => harness.turn({ batch: raw, seconds: times.seconds, warmUp: times.warmUp }),
      },
    ];
    for (const name of variants) {
      const place = join(folder, name.replace(' ', '-'));
      mkdirSync(place);
      const repository = only(models, model, join(place, 'models'), name === 'batching off');
      const { servers, notRun } = await startServers([ONE], { models: repository, folder: place, say });
      running.push(...servers);
      const [server] = servers;
      if (server === undefined) throw new Error(notRun.one);
      const requests = writeRequests({ column: ONE, row: { model }, encoding: 'binary', samples, folder: place });
      const shared = { generator, server, requests, concurrency: CLIENTS, file: join(place, 'answers') };
      await turn({ ...shared, seconds: times.firstWarmUp, warmUp: 0 });
      runs.push({ name, take: () => turn({ ...shared, seconds: times.seconds, warmUp: times.warmUp }) });
    }
    const patience = { left: PATIENCE_MS };
    const patient = runs.map(({ name, take }) => ({ name, take: () => quietMoment(patience).then(take) }));
    const turns = await takeTurns(patient, { times, budget: { left: REPEAT_S }, say });
    const summaries = Object.fromEntries(
      Object.entries(turns).map(([name, taken]) => {
        const quiet = taken.filter(({ disturbed }) => !disturbed);
        const isEnough = quiet.length >= QUIET_MIN;
        if (!isEnough) say(`  ${name}: only ${quiet.length} of ${taken.length} turns were quiet, so all count`);
        return [name, summary(isEnough ? quiet : taken)];
      }),
    );
    for (const [name, { rps, p50_ms: p50, others_cpu: others, errors }] of Object.entries(summaries)) {
      say(
        `  ${model}, ${name}: ${rps.median.toFixed(0)} rows/s (${rps.min.toFixed(0)}–${rps.max.toFixed(0)}), ` +
          `p50 ${p50.median.toFixed(2)} ms, others' CPU ${others.median.toFixed(2)}`,
      );
      if (errors > 0) throw new Error(`${errors} errors`);
    }
    return summaries;
  } finally {
    await Promise.all(running.map((server) => server.stop()));
    await harness.stop();
  }
}

/** Waits until little runs on the machine, as long as there is patience left. */
async function quietMoment(patience) {
  for (let isQuiet = false; !isQuiet && patience.left > 0; patience.left -= LOOK_MS) {
    const before = busySeconds();
    await delay(LOOK_MS);
    isQuiet = ((busySeconds() - before) * 1000) / LOOK_MS < BUSY_CORES_MAX;
  }
}

/** A repository of the one model; its batching is taken out of the configuration where it is to be off. */
function only(models, model, repository, isOff) {
  mkdirSync(join(repository, model, '1'), { recursive: true });
  const config = readFileSync(join(models, model, 'config.pbtxt'), 'utf8');
  const without = config.replace(/^dynamic_batching *\{ *\}\n/m, '');
  if (without === config) throw new Error(`${model}: its configuration has no dynamic_batching { }`);
  writeFileSync(join(repository, model, 'config.pbtxt'), isOff ? without : config);
  writeFileSync(join(repository, model, '1', 'model.onnx'), readFileSync(join(models, model, '1', 'model.onnx')));
  return repository;
}
