/** What batching across sequences wins: the sample `silero_vad`, whose state the server keeps. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { asBinary, HEADER_LENGTH, readTensors } from '../v2-tensors.mjs';
import { bar, quietTurns } from './bars-turns.mjs';
import { COLUMNS } from './columns.mjs';
import { startServers } from './engine.mjs';
import { randomValues } from './models/random.mjs';
import { addSequenceSilero } from './models/silero.mjs';
import { median } from './statistics.mjs';
import { turn } from './turns.mjs';

const SEQUENCES = 64;
const BATCH = 16;
const OVER_SINGLE_MIN = 1.5;
const MEAN_BATCH_MIN = 8;
const FRAME_SAMPLES = 512;
const LOUDNESS = 0.5;
/** Ids of the same length, so that all requests have the same headers. */
const FIRST_ID = 1_001;

/** In one process: 64 sequences, each with one step in flight, with batches of up to 16 and without batches. */
export async function sequencesBar({ folder, generator, times, say }) {
  const models = join(folder, 'models');
  const largest = [BATCH, 1];
  for (const maxBatchSize of largest) addSequenceSilero(models, { name: nameOf(maxBatchSize), maxBatchSize });
  const one = COLUMNS.find(({ name }) => name === 'one');
  const { servers, notRun } = await startServers([one], { models, folder, say });
  const [server] = servers;
  if (server === undefined) throw new Error(notRun.one);
  try {
    const runs = largest.map((maxBatchSize) => {
      const model = nameOf(maxBatchSize);
      const requests = steps(model, join(folder, model));
      const load = async (seconds, warmUp) => {
        await begin(server, model);
        const file = join(folder, 'answers');
        return turn({ generator, server, requests, concurrency: SEQUENCES, seconds, warmUp, file });
      };
      return {
        name: model,
        warm: () => load(times.firstWarmUp, 0),
        take: () => batches(server, model, () => load(times.seconds, times.warmUp)),
      };
    });
    for (const { warm } of runs) await warm();
    const turns = await quietTurns(runs, { times, say });
    const [batched, single] = largest.map((maxBatchSize) => turns[nameOf(maxBatchSize)]);
    return [
      bar(`${SEQUENCES} sequences, max batch ${BATCH} over 1`, batched.rps.median / single.rps.median, OVER_SINGLE_MIN),
      bar('mean batch by the statistics', median(batched.turns.map(({ meanBatch }) => meanBatch)), MEAN_BATCH_MIN),
    ];
  } finally {
    await server.stop();
  }
}

const nameOf = (maxBatchSize) => `silero_vad_${maxBatchSize}`;

/** One frame of sound for a sequence. */
function step(index, flags = {}) {
  const values = randomValues(index, FRAME_SAMPLES).map((value) => value * LOUDNESS);
  return asBinary([{ name: 'audio', datatype: 'FP32', shape: [1, FRAME_SAMPLES], values }], {
    sequence_id: FIRST_ID + index,
    ...flags,
  });
}

/** The load generator's requests: each client goes on with its own sequence. */
function steps(model, folder) {
  mkdirSync(folder);
  const asked = Array.from({ length: SEQUENCES }, (_, index) => step(index));
  const bodies = asked.map(({ body }, index) => {
    const file = join(folder, `${index}`);
    writeFileSync(file, body);
    return file;
  });
  const headers = Object.entries(asked[0].headers).map(([name, value]) => `${name}: ${value}`);
  return { path: pathOf(model), headers, bodies, checks: asked.map(() => wrong), own: true };
}

const pathOf = (model) => `/v2/models/${model}/infer`;

/** The first step of every sequence; those of a turn before begin anew. */
async function begin({ port }, model) {
  await Promise.all(
    Array.from({ length: SEQUENCES }, async (_, index) => {
      const { headers, body } = step(index, { sequence_start: true });
      const answer = await fetch(`http://127.0.0.1:${port}${pathOf(model)}`, { method: 'POST', headers, body });
      if (!answer.ok) throw new Error(`${model}: ${answer.status} ${await answer.text()}`);
      const problem = wrong(Buffer.from(await answer.arrayBuffer()), answer.headers);
      if (problem !== undefined) throw new Error(problem);
    }),
  );
}

/** Whether it is a probability; that it is the right one, whatever it is batched with, is `test/e2e/silero`'s. */
function wrong(body, headers) {
  const values = readTensors(body, headers.get(HEADER_LENGTH)).get('output');
  const [probability] = values ?? [];
  return values?.length === 1 && probability >= 0 && probability <= 1 ? undefined : `the output is ${values}`;
}

/** A turn with `meanBatch`: rows an execution. */
async function batches(server, model, take) {
  const before = await executions(server, model);
  const figures = await take();
  const after = await executions(server, model);
  return { ...figures, meanBatch: (after.rows - before.rows) / (after.count - before.count) };
}

async function executions({ port }, model) {
  const response = await fetch(`http://127.0.0.1:${port}/v2/models/${model}/stats`);
  const { model_stats: stats } = await response.json();
  const sizes = stats.flatMap(({ batch_stats: sizesOf }) => sizesOf);
  return {
    rows: sizes.reduce((sum, { batch_size: rows, compute_infer: infer }) => sum + rows * infer.count, 0),
    count: sizes.reduce((sum, { compute_infer: infer }) => sum + infer.count, 0),
  };
}
