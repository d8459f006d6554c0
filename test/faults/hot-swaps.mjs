/**
 * A model that is loaded anew again and again under requests: each answer is of a generation that was ready between
 * the request and it.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { treeResidentBytes } from '../bench/proc-cpu.mjs';
import { deploy } from '../deployment.mjs';

const MODEL = 'swapped';
const FLAGS = ['--model-control-mode=explicit', `--load-model=${MODEL}`];
/** Every so many generations cannot be loaded. */
const BROKEN_EVERY = 10;
const CONFIG = `name: "${MODEL}"
backend: "javascript"
max_batch_size: 8
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "GENERATION", data_type: TYPE_INT32, dims: [ 1 ] } ]
dynamic_batching { }
instance_group [ { count: 2, kind: KIND_CPU } ]
`;
const BODY = JSON.stringify({ inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [1] }] });
const PROBLEMS_MAX = 20;
const WARM_TOGETHER = 16;

const isBroken = (generation) => generation % BROKEN_EVERY === 0;

/** Ready only a moment after its load has begun; -1 of one that answers before. */
const source = (generation) => `
import { setTimeout as sleep } from 'node:timers/promises';
let generation = -1;
export async function initialize() {
  await sleep(20);
  ${isBroken(generation) ? "throw new Error('cannot be loaded');" : `generation = ${generation};`}
}
export const execute = (requests) =>
  requests.map(() => ({ outputs: { GENERATION: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(generation) } } }));
`;

/**
 * Swaps `swaps` times with so many requests a second, by the gateways in turn, behind `warm` requests without a swap. `resident` has the bytes of all
 * processes behind each swap, by the name of the process.
 *
 * @returns {Promise<{ answered: number, problems: string[], resident: Record<string, number>[], seconds: number }>}
 */
export async function runHotSwaps({ mode, swaps, perSecond, warm = 0 }) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-swaps-'));
  mkdirSync(join(folder, MODEL, '1'), { recursive: true });
  writeFileSync(join(folder, MODEL, 'config.pbtxt'), CONFIG);
  const write = (generation) => {
    const file = join(folder, MODEL, '1', 'model.mjs');
    writeFileSync(join(folder, 'next'), source(generation));
    renameSync(join(folder, 'next'), file);
  };
  write(1);
  const served = await deploy(mode, [folder], FLAGS);
  try {
    return await swapUnderLoad({ served, write, swaps, perSecond, warm });
  } finally {
    await served.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function swapUnderLoad({ served, write, swaps, perSecond, warm }) {
  const gateways = served.gateways.map(({ http }) => http);
  const pids = Object.fromEntries(served.processes.map(({ role, process }) => [`${role} ${process.pid}`, process.pid]));
  /** The newest that was told to be ready, and the newest that was asked for. */
  const seen = { ready: 1, asked: 1 };
  const problems = [];
  const resident = [];
  const waiting = new Set();
  let answered = 0;
  let sent = 0;

  const ask = async () => {
    const http = gateways[sent++ % gateways.length];
    const least = seen.ready;
    const { status, text } = await post(`${http}/v2/models/${MODEL}/infer`, BODY);
    const generation = status === 200 ? JSON.parse(text).outputs[0].data[0] : undefined;
    if (generation === undefined) problems.push(`a request failed with ${status}: ${text}`);
    else if (generation < least || generation > seen.asked || isBroken(generation)) {
      problems.push(`answered by ${generation}: ready were ${least} to ${seen.asked}`);
    } else answered += 1;
  };
  const swap = async (generation) => {
    write(generation);
    seen.asked = generation;
    const http = gateways[generation % gateways.length];
    const { status, text } = await post(`${http}/v2/repository/models/${MODEL}/load`, '{}');
    if (isBroken(generation) !== status >= 400) problems.push(`the load of ${generation} answered ${status}: ${text}`);
    if (!isBroken(generation)) seen.ready = generation;
    const index = JSON.parse((await post(`${http}/v2/repository/index`, '{}')).text);
    const state = index.find(({ name }) => name === MODEL)?.state;
    if (state !== 'READY') problems.push(`behind the load of ${generation} the index says ${state}`);
    resident.push(treeResidentBytes(pids));
  };

  for (let left = warm; left > 0; left -= WARM_TOGETHER) {
    await Promise.all(Array.from({ length: Math.min(left, WARM_TOGETHER) }, ask));
  }
  const start = performance.now();
  let isOver = false;
  const load = (async () => {
    for (let at = 0; !isOver; at += 1) {
      const asking = ask().catch((error) => problems.push(`a request broke: ${error.cause?.message ?? error.message}`));
      waiting.add(asking);
      void asking.finally(() => waiting.delete(asking));
      await delay(Math.max(0, start + ((at + 1) * 1000) / perSecond - performance.now()));
    }
  })();
  for (let generation = 2; generation <= swaps + 1 && problems.length < PROBLEMS_MAX; generation += 1) {
    await swap(generation);
  }
  isOver = true;
  await load;
  await Promise.all(waiting);
  return { answered, problems, resident, seconds: (performance.now() - start) / 1000 };
}

async function post(url, body) {
  const answer = await fetch(url, { method: 'POST', body });
  return { status: answer.status, text: await answer.text() };
}
