/** What requests that somebody waits for lose to a batch of 10,000 lines that runs beside them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { asBinary, HEADER_LENGTH, readTensors } from '../v2-tensors.mjs';
import { mostBar, quietTurns } from './bars-turns.mjs';
import { COLUMNS } from './columns.mjs';
import { startServers } from './engine.mjs';
import { turn } from './turns.mjs';

const LINES = 10_000;
const OVER_MAX = 1.5;
const ROWS_MAX = 8;
/** What an execution of so many rows takes. */
const KINDS = [
  { name: 'held', what: '5 ms a run', runMs: (_rows) => 5, text: '5' },
  { name: 'grows', what: '1 ms a run and 2 ms a row', runMs: (rows) => 1 + 2 * rows, text: '1 + 2 * requests.length' },
];
const VALUES = Int32Array.of(1, 2, 3, 4);

const modelText = (text) => `export async function execute(requests) {
  const runMs = ${text};
  const end = performance.now() + runMs;
  await new Promise((resolve) => setTimeout(resolve, runMs - 1));
  while (performance.now() < end);
  return requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get('INPUT') } }));
}
`;
const configText = (name) => `name: "${name}" backend: "javascript" max_batch_size: ${ROWS_MAX} dynamic_batching {}
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ ${VALUES.length} ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ ${VALUES.length} ] } ]
instance_group { count: 1 kind: KIND_CPU }
`;

/** In one process: p50 with a batch beside it, less one execution, over p50 without, at 1 and at 8 clients. */
export async function bulkBar({ folder, generator, times, say }) {
  const models = join(folder, 'models');
  for (const { name, text } of KINDS) {
    mkdirSync(join(models, name, '1'), { recursive: true });
    writeFileSync(join(models, name, 'config.pbtxt'), configText(name));
    writeFileSync(join(models, name, '1', 'model.mjs'), modelText(text));
  }
  const one = COLUMNS.find(({ name }) => name === 'one');
  const { servers, notRun } = await startServers([one], { models, folder, say });
  const [server] = servers;
  if (server === undefined) throw new Error(notRun.one);
  try {
    const bars = [];
    for (const [kind, concurrency] of KINDS.flatMap((each) => [1, 8].map((clients) => [each, clients]))) {
      const load = () =>
        turn({
          generator,
          server,
          requests: liveRequests(folder, kind.name),
          concurrency,
          seconds: times.seconds,
          warmUp: times.warmUp,
          file: join(folder, 'answers'),
        });
      const runs = [
        { name: `${kind.name} without, ${concurrency}`, take: load },
        { name: `${kind.name} with, ${concurrency}`, take: () => beside(server, kind.name, load, say) },
      ];
      const turns = await quietTurns(runs, { times, say });
      const [without, withIt] = runs.map(({ name }) => turns[name].p50_ms.median);
      const what = `${kind.what}: p50 at ${concurrency} beside ${LINES} lines, less one execution, over p50 without`;
      say(`  p50 ${withIt} ms in place of ${without}`);
      bars.push(mostBar(what, (withIt - kind.runMs(ROWS_MAX)) / without, OVER_MAX));
    }
    return bars;
  } finally {
    await server.stop();
  }
}

/** Runs the load while a batch runs, and ends that then. */
async function beside(server, model, load, say) {
  const body = { inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1, VALUES.length], data: [...VALUES] }] };
  const line = `${JSON.stringify({ body })}\n`;
  const sent = await fetch(`http://127.0.0.1:${server.port}/v2/models/${model}/batches`, {
    method: 'POST',
    body: line.repeat(LINES),
  });
  if (sent.status !== 202) throw new Error(`no batch: ${await sent.text()}`);
  const { id } = await sent.json();
  const state = async (method = 'GET') =>
    (await fetch(`http://127.0.0.1:${server.port}/v2/batches/${id}`, { method })).json();
  while ((await state()).state === 'waiting') await delay(50);
  const before = (await state()).request_counts.completed;
  const result = await load();
  const { state: end, request_counts: counts } = await state();
  const seconds = result.seconds ?? Number.NaN;
  say(`  ${counts.completed - before} lines beside it${Number.isNaN(seconds) ? '' : ` in ${seconds} s`}`);
  if (end !== 'running') throw new Error(`the batch is ${end} before the turn is over: give it more lines`);
  await state('DELETE');
  return result;
}

function liveRequests(folder, model) {
  const { headers, body } = asBinary([{ name: 'INPUT', datatype: 'INT32', shape: [1, VALUES.length], values: VALUES }]);
  const file = join(folder, `${model}-body`);
  writeFileSync(file, body);
  return {
    path: `/v2/models/${model}/infer`,
    headers: Object.entries(headers).map(([header, value]) => `${header}: ${value}`),
    bodies: [file],
    checks: [wrong],
  };
}

function wrong(body, headers) {
  const values = [...(readTensors(body, headers.get(HEADER_LENGTH)).get('OUTPUT') ?? [])];
  return `${values}` === `${VALUES}` ? undefined : `the output is ${values}`;
}
