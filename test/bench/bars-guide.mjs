/** Triton's optimization guide's experiment: what batching and more instances win, and how much of the time instances run. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { bar, quietTurns } from './bars-turns.mjs';
import { COLUMNS } from './columns.mjs';
import { startServers } from './engine.mjs';
import { GUIDE_PREFIX, writeGuideModels } from './models/guide.mjs';
import { samplesOf, writeRequests } from './requests.mjs';
import { median } from './statistics.mjs';
import { turn } from './turns.mjs';

/** The requests of the bench's own sleeping model fit all forms. */
const LIKE = 'sleep10';
const DYNAMIC_MIN = 3.7;
const INSTANCES_MIN = 1.9;
const BOTH_AT_64_MIN = 1.9;
const BOTH_AT_16_MIN = 1.4;
const AT_ONCE_MIN = 0.95;
const RUNNING_MIN = 0.95;
const BESIDE = [16, 64];

/** In one process: dynamic batching, instances and both against neither, and two models at once. */
export async function guideBar(context) {
  const turns = await withServers(['one'], context, async ([server], load) => {
    const single = (form, clients) => ({
      name: `${form} at ${clients}`,
      take: () => load(server, form, clients),
    });
    const atOnce = {
      name: 'batched beside again at 8',
      take: async () => sum(await Promise.all([load(server, 'batched', 8), load(server, 'again', 8)])),
    };
    return [
      ...[single('plain', 8), single('batched', 8), single('again', 8), atOnce],
      ...[single('plain', 64), single('two', 64), single('batched', 64), single('both', 64)],
      ...[single('batched', 16), single('both', 16)],
    ];
  });
  const rps = (name) => turns[name].rps.median;
  const [with8, without8] = ['batched at 8', 'plain at 8'].map((name) => turns[name].p50_ms.median);
  const together = turns['batched beside again at 8'].turns;
  return [
    bar('dynamic batching over none, 8 clients', rps('batched at 8') / rps('plain at 8'), DYNAMIC_MIN),
    {
      what: 'its p50, 8 clients',
      figure: `${with8.toFixed(1)} ms`,
      bar: `at most ${without8.toFixed(1)} ms, as without`,
      holds: with8 <= without8,
    },
    bar('two instances over one, 64 clients', rps('two at 64') / rps('plain at 64'), INSTANCES_MIN),
    bar('both over dynamic batching, 64 clients', rps('both at 64') / rps('batched at 64'), BOTH_AT_64_MIN),
    bar('both over dynamic batching, 16 clients', rps('both at 16') / rps('batched at 16'), BOTH_AT_16_MIN),
    ...['batched', 'again'].map((form, index) =>
      bar(
        `${form} beside the other over alone, 8 clients`,
        median(together.map(({ parts }) => parts[index])) / rps(`${form} at 8`),
        AT_ONCE_MIN,
      ),
    ),
  ];
}

/**
 * The share of the time in which an instance runs: throughput divided by the rows of a second of measured execution,
 * beside real Triton's (Python backend).
 */
export async function guideBesideTriton(context) {
  const turns = await withServers(['one', 'triton'], context, async (servers, load) =>
    servers.flatMap((server) =>
      ['batched', 'both'].flatMap((form) =>
        BESIDE.map((clients) => ({
          name: `${server.column.name}, ${form} at ${clients}`,
          take: () => running(server, form, () => load(server, form, clients)),
        })),
      ),
    ),
  );
  const share = (name) => median(turns[name].turns.map((taken) => taken.running));
  return ['batched', 'both'].flatMap((form) =>
    BESIDE.map((clients) => {
      const [ours, theirs] = ['one', 'triton'].map((name) => `${name}, ${form} at ${clients}`);
      const ratio = share(ours) / share(theirs);
      const p50 = turns[ours].p50_ms.median / turns[theirs].p50_ms.median;
      const rps = turns[ours].rps.median / turns[theirs].rps.median;
      return {
        what: `${form}, ${clients} clients, share of the time that instances run, over Triton's (Python backend)`,
        figure: `${share(ours).toFixed(3)} / ${share(theirs).toFixed(3)} = ${ratio.toFixed(3)} (rps ${rps.toFixed(2)}, p50 ${p50.toFixed(2)} times)`,
        bar: `at least ${RUNNING_MIN}`,
        holds: ratio >= RUNNING_MIN,
      };
    }),
  );
}

/** A turn with `running`: its throughput over the rows of a second in which an instance executes, per instance. */
async function running(server, form, take) {
  const before = await executions(server, form);
  const figures = await take();
  const after = await executions(server, form);
  const rowsPerSecond = ((after.rows - before.rows) / (after.ns - before.ns)) * 1e9;
  return { ...figures, running: figures.rps / rowsPerSecond / (form === 'both' ? 2 : 1) };
}

/** Rows and nanoseconds of all executions so far. */
async function executions({ port }, form) {
  const response = await fetch(`http://127.0.0.1:${port}/v2/models/${GUIDE_PREFIX}${form}/stats`);
  const { model_stats: stats } = await response.json();
  const sizes = stats.flatMap(({ batch_stats: sizesOf }) => sizesOf);
  return {
    rows: sizes.reduce((sum, { batch_size: rows, compute_infer: infer }) => sum + rows * infer.count, 0),
    ns: sizes.reduce((sum, { compute_infer: infer }) => sum + infer.ns, 0),
  };
}

/** Starts the columns, takes the turns of the runs that `runsOf` gives, and answers each one's summary. */
async function withServers(names, { folder, generator, times, say }, runsOf) {
  const models = writeGuideModels(join(folder, 'models'));
  const samples = await samplesOf(models, LIKE);
  const columns = names.map((name) => COLUMNS.find((column) => column.name === name));
  const { servers, notRun } = await startServers(columns, { models, folder, say });
  try {
    if (servers.length < names.length) throw new Error(JSON.stringify(notRun));
    const load = async (server, form, concurrency) => {
      const place = join(folder, `${server.column.name}-${form}`);
      mkdirSync(place, { recursive: true });
      const asked = writeRequests({
        column: server.column,
        row: { model: LIKE },
        encoding: 'binary',
        samples,
        folder: place,
      });
      const requests = { ...asked, path: asked.path.replace(LIKE, `${GUIDE_PREFIX}${form}`) };
      const { seconds, warmUp } = times;
      const file = join(place, 'answers');
      const figures = await turn({ generator, server, requests, concurrency, seconds, warmUp, file });
      if (figures.errors > 0) throw new Error(`${figures.errors} errors (${figures.last_error})`);
      return figures;
    };
    const runs = await runsOf(servers, load);
    for (const { take } of runs) await take();
    return await quietTurns(runs, { times, say });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** Two loads at once as one turn; `parts` has each one's throughput. */
function sum([first, second]) {
  return {
    ...first,
    rps: first.rps + second.rps,
    checked: first.checked + second.checked,
    // Each generator takes the other for somebody else.
    other_cpu: Math.min(first.other_cpu, second.other_cpu),
    parts: [first.rps, second.rps],
  };
}
