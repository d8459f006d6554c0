import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createServer } from '@nereid/server';
import { treeResidentBytes } from './proc-cpu.mjs';

// Loads a model and unloads it, again and again; behind each unload prints the resident memory of this process and its
// children, in bytes, a line each. The environment says which malloc it has (docs/memory.md).
//   node test/bench/memory-cycles.mjs REPOSITORY MODEL CYCLES [SETTLE_MS]

const [repository, model, cycles, settleMs = '0'] = process.argv.slice(2);
/** What is found to be garbage in one collection may hold what the next one frees. */
const COLLECTIONS = 3;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

const server = await createServer({ modelRepositories: [repository], modelControlMode: 'explicit' });
for (let cycle = 0; cycle < Number(cycles); cycle += 1) {
  await server.loadModel(model);
  await server.unloadModel(model);
  for (let at = 0; at < COLLECTIONS; at += 1) {
    collect();
    await delay(0);
  }
  await delay(Number(settleMs));
  console.log(treeResidentBytes({ all: process.pid }).all);
}
await server.stop();
