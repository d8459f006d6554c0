/** What batching must win, and what a server may lose against raw session.run. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bar, quietTurns } from './bars-turns.mjs';
import { COLUMNS } from './columns.mjs';
import { missingModel, startServers, writeModels } from './engine.mjs';
import { startRaw } from './raw-column.mjs';
import { samplesOf, writeRequests } from './requests.mjs';
import { turn } from './turns.mjs';

const CLIENTS = 32;
const BATCHING_MIN = 4;
const RAW_SHARE_MIN = 0.85;
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
    return await quietTurns(runs, { times, say });
  } finally {
    await Promise.all(running.map((server) => server.stop()));
    await harness.stop();
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
