import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { commandOptions } from '../command-options.mjs';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';

// Throughput by the number of workers, of a model that sleeps 10 ms per execution and uses no processor, one request a
// batch, 64 clients; one cluster for each number, asked in alternating turns. Then a worker joins the first cluster, and
// how soon it answers is told.
//   node test/faults/scaling.mjs [--turns 5] [--seconds 3]
// The exit code is 1 where a ratio to one worker, or the time to join, misses its bar.

const BARS = [
  { workers: 1, ratioMin: 1 },
  { workers: 2, ratioMin: 1.8 },
  { workers: 4, ratioMin: 3.4 },
];
const JOIN_MS_MAX = 3_000;
/** So long is asked while it starts and joins. */
const JOIN_LIMIT_MS = 15_000;
const CLIENTS = 64;
const WARM_MS = 500;
const READY_LIMIT_MS = 60_000;
const MODEL = 'sleeps';
const SOURCE = `
import { setTimeout } from 'node:timers/promises';
export async function execute(requests) {
  await setTimeout(10);
  return requests.map(() => ({ outputs: { PID: { datatype: 'INT32', shape: [1], data: new Int32Array([process.pid]) } } }));
}
`;
const CONFIG = `name: "${MODEL}"
backend: "javascript"
max_batch_size: 0
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "PID", data_type: TYPE_INT32, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
`;
const BODY = JSON.stringify({ inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1], data: [1] }] });

const { values } = commandOptions({
  usage: 'node test/faults/scaling.mjs [--turns 5] [--seconds 3]',
  options: { turns: { type: 'string', default: '5' }, seconds: { type: 'string', default: '3' } },
});

const folder = mkdtempSync(join(tmpdir(), 'nereid-scaling-'));
mkdirSync(join(folder, MODEL, '1'), { recursive: true });
writeFileSync(join(folder, MODEL, 'config.pbtxt'), CONFIG);
writeFileSync(join(folder, MODEL, '1', 'model.mjs'), SOURCE);

/** One coordinator, one gateway and so many workers. */
async function startCluster(workers) {
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder}`]));
  const roles = ['coordinator', 'gateway', ...Array(workers).fill('worker')];
  const processes = roles.map((role) => cluster.start(role));
  const started = await Promise.all(processes.map((one) => one.started));
  const { http } = started[1];
  const hasEnded = () => processes.some(({ process }) => process.exitCode !== null);
  if (!(await becomesReady(http, hasEnded, READY_LIMIT_MS))) throw new Error(`not ready:\n${started[1].output()}`);
  const own = {
    workers,
    http,
    perSecond: [],
    async join() {
      const joining = cluster.start('worker');
      processes.push(joining);
      return joining.started;
    },
    async stop() {
      for (const one of processes) one.process.kill('SIGKILL');
      await Promise.all(processes.map(({ ended }) => ended));
      await redis.stop();
    },
  };
  // All of them hold the model once all of them answer.
  const seen = new Set();
  while (seen.size < workers) for (const pid of await turn(http, WARM_MS)) seen.add(pid);
  return own;
}

/** Asks for so long; the processes that answered, one entry an answer, and calls back at each. */
async function turn(http, ms, answered = () => {}) {
  const pids = [];
  const untilMs = performance.now() + ms;
  const ask = async () => {
    while (performance.now() < untilMs) {
      const response = await fetch(`${http}/v2/models/${MODEL}/infer`, { method: 'POST', body: BODY });
      const text = await response.text();
      if (!response.ok) throw new Error(`${response.status} ${text}`);
      const [pid] = JSON.parse(text).outputs[0].data;
      answered(pid);
      // What was under way at the end is not of this turn, or few workers would gain more by it than many.
      if (performance.now() < untilMs) pids.push(pid);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, ask));
  return pids;
}

async function joinMs(cluster) {
  let pid;
  let startedMs;
  let firstMs = Number.POSITIVE_INFINITY;
  const ask = turn(cluster.http, JOIN_LIMIT_MS, (by) => {
    if (by === pid) firstMs = Math.min(firstMs, performance.now());
  });
  const join = async () => {
    await delay(WARM_MS);
    pid = (await cluster.join()).process.pid;
    startedMs = performance.now();
  };
  await Promise.all([ask, join()]);
  return Math.round(firstMs - startedMs);
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const clusters = [];
try {
  for (const { workers } of BARS) clusters.push(await startCluster(workers));
  for (let index = 0; index < Number(values.turns); index += 1) {
    const order = index % 2 === 0 ? clusters : clusters.toReversed();
    for (const { http, perSecond } of order) {
      await turn(http, WARM_MS);
      perSecond.push((await turn(http, Number(values.seconds) * 1_000)).length / Number(values.seconds));
    }
  }
  const [one] = clusters;
  for (const { workers, ratioMin } of BARS) {
    const { perSecond } = clusters.find((cluster) => cluster.workers === workers);
    // Of each turn, so that what slows the machine meets both.
    const ratios = perSecond.map((rate, index) => rate / one.perSecond[index]);
    const isMissed = median(ratios) < ratioMin;
    if (isMissed) process.exitCode = 1;
    console.log(
      `${workers} workers: ${median(perSecond).toFixed(0)} requests/s, ${median(ratios).toFixed(2)} times one worker (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}; at least ${ratioMin})${isMissed ? ': MISSED' : ''}`,
    );
  }
  const joined = await joinMs(one);
  if (joined > JOIN_MS_MAX) process.exitCode = 1;
  console.log(`a worker that joins answers after ${joined} ms (at most ${JOIN_MS_MAX})`);
} finally {
  await Promise.all(clusters.map((cluster) => cluster.stop()));
  rmSync(folder, { recursive: true, force: true });
}
