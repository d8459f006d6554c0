/** What batching across sequences wins: the sample `silero_vad`, whose state the server keeps. */
import { join } from 'node:path';
import { bar, quietTurns } from './bars-turns.mjs';
import { COLUMNS } from './columns.mjs';
import { startServers } from './engine.mjs';
import { addSequenceSilero } from './models/silero.mjs';
import { beginSequences, sequenceSteps } from './silero-steps.mjs';
import { median } from './statistics.mjs';
import { turn } from './turns.mjs';

const SEQUENCES = 64;
const BATCH = 16;
const OVER_SINGLE_MIN = 1.5;
const MEAN_BATCH_MIN = 8;

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
      const requests = sequenceSteps(model, SEQUENCES, join(folder, model));
      const load = async (seconds, warmUp) => {
        await beginSequences(server, model, SEQUENCES);
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
