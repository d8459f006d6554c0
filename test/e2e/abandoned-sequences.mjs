// Starts sequences in a server of its own process and leaves them, then prints what is left of them as JSON:
//   node abandoned-sequences.mjs REPOSITORY MODEL WARM_UP COUNT
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createServer } from '@nereid/server';

const CLIENTS = 64;
const COLLECTIONS = 4;
/** Until all that is left is over. */
const LIMIT_MS = 20_000;
const LOOK_MS = 20;

const [repository, model, warmUp, count] = process.argv.slice(2);
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

const server = await createServer({ modelRepositories: [repository], http: { address: '127.0.0.1', port: 0 } });
let begun = 0;

async function begin(many) {
  const last = begun + many;
  const one = async () => {
    while (begun < last) {
      begun += 1;
      const VALUE = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(begun) };
      const { outputs } = await server.infer({ model, sequence: { id: begun, start: true }, inputs: { VALUE } });
      if (outputs.VALUE.data[0] !== 1) throw new Error(`a sequence began with step ${outputs.VALUE.data[0]}`);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, one));
}

/** Sequences that the server tells of. */
async function kept() {
  const { sequences } = await (await fetch(`${server.urls.http}/nereid/v1/sequences?limit=1000`)).json();
  return sequences.length;
}

async function look() {
  const limitMs = performance.now() + LIMIT_MS;
  let sequences = await kept();
  while (sequences > 0 && performance.now() < limitMs) {
    await delay(LOOK_MS);
    sequences = await kept();
  }
  // What ended last is collected once what looked at it has run.
  for (let turn = 0; turn < COLLECTIONS; turn += 1) {
    await delay(LOOK_MS);
    collect();
  }
  const { heapUsed, external, arrayBuffers, rss } = process.memoryUsage();
  return { sequences, heapUsed, external, arrayBuffers, rss, counts: server.counts() };
}

await begin(Number(warmUp));
const before = await look();
await begin(Number(count));
const after = await look();
await server.stop();
process.stdout.write(`${JSON.stringify({ before, after, left: server.counts() })}\n`);
