/** What loads of a model cost requests to another: hot swaps of one under load, and loads of another one. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { deploy } from '../deployment.mjs';
import { runHotSwaps } from '../faults/hot-swaps.mjs';
import { MLPS, mlpModel } from './models/mlp.mjs';
import { median } from './statistics.mjs';

const SWAPS = 200;
const PER_SECOND = 100;
/** So many that what is remembered of requests for `nereid explain` is at its bound in each process. */
const WARM = 20_000;
const GROWTH_MAX = 0.05;
const MIB = 2 ** 20;

const LOADS = 50;
const TURNS = 5;
const CLIENTS = 8;
const LATE_MAX_MS = 10;
const STEADY = 'steady';
const OTHER = 'mlp_1024x8';
const ANSWERS = `
export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
`;
const BODY = JSON.stringify({ inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [1] }] });

const share = () => `load average ${loadavg()[0].toFixed(1)}`;

/** 200 hot swaps under 100 requests a second: none fails, none is answered by what was not ready; memory. */
export async function hotSwapsBar({ say }) {
  const bars = [];
  for (const mode of ['one', 'apart']) {
    const { answered, problems, resident, seconds } = await runHotSwaps({
      ...{ mode, swaps: SWAPS, perSecond: PER_SECOND, warm: WARM },
    });
    for (const problem of problems) say(`  ${mode}: ${problem}`);
    const bytes = resident.map((of) => Object.values(of).reduce((sum, each) => sum + each, 0));
    say(
      `  ${mode}: ${answered} requests in ${seconds.toFixed(0)} s; MiB at each 20th swap: ` +
        `${bytes
          .filter((_, at) => (at + 1) % 20 === 0)
          .map((each) => Math.round(each / MIB))
          .join(' ')} (${share()})`,
    );
    const growth = growthOf(bytes.slice(bytes.length / 2));
    bars.push({
      what: `${SWAPS} hot swaps, ${mode}: requests that failed or were answered by what was not ready`,
      ...{ figure: String(problems.length), bar: '0', holds: problems.length === 0 },
    });
    bars.push({
      what: `memory over the second half of ${SWAPS} hot swaps, ${mode}`,
      figure: `${(growth * 100).toFixed(1)} %`,
      ...{ bar: `less than ${GROWTH_MAX * 100} %`, holds: growth < GROWTH_MAX },
    });
  }
  return bars;
}

/** Along the straight line through all looks (least squares). */
function growthOf(looks) {
  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
  const [middle, bytes] = [(looks.length - 1) / 2, mean(looks)];
  const slope =
    mean(looks.map((each, at) => (at - middle) * (each - bytes))) / mean(looks.map((_, at) => (at - middle) ** 2));
  return (slope * (looks.length - 1)) / (bytes - slope * middle);
}

/** 50 loads of a model of 33 MB while another is asked, in turns with as long a time without loads. */
export async function loadsBar({ folder, say }) {
  const repository = join(folder, 'models');
  writeModels(repository);
  const bars = [];
  for (const mode of ['one', 'apart']) {
    const served = await deploy(mode, [repository], ['--model-control-mode=explicit', `--load-model=${STEADY}`]);
    try {
      bars.push(...(await loadsIn(mode, served, say)));
    } finally {
      await served.stop();
    }
  }
  return bars;
}

function writeModels(repository) {
  const write = (name, file, content, config) => {
    mkdirSync(join(repository, name, '1'), { recursive: true });
    writeFileSync(join(repository, name, '1', file), content);
    writeFileSync(join(repository, name, 'config.pbtxt'), `name: "${name}"\nmax_batch_size: 8\n${config}`);
  };
  const instances = 'instance_group [ { count: 1, kind: KIND_CPU } ]\n';
  const value = 'name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ]';
  write(
    STEADY,
    'model.mjs',
    ANSWERS,
    `backend: "javascript"\ninput [ { ${value} } ]\noutput [ { ${value} } ]\n${instances}`,
  );
  write(OTHER, 'model.onnx', mlpModel(OTHER, MLPS[OTHER]), `backend: "onnxruntime"\n${instances}`);
}

async function loadsIn(mode, served, say) {
  const [{ http }] = served.gateways;
  const watched = { gateway: served.gateways[0].metrics, coordinator: served.coordinators[0].metrics };
  const loadMs = [];
  const load = async () => {
    for (let at = 0; at < LOADS / TURNS; at += 1) {
      const start = performance.now();
      await posted(`${http}/v2/repository/models/${OTHER}/load`);
      loadMs.push(performance.now() - start);
      await posted(`${http}/v2/repository/models/${OTHER}/unload`);
    }
  };
  const turns = { with: [], without: [] };
  await oneTurn(http, watched, load);
  loadMs.length = 0;
  for (let at = 0; at < TURNS; at += 1) {
    const loaded = await oneTurn(http, watched, load);
    turns.with.push(loaded);
    const still = () => new Promise((resolve) => setTimeout(resolve, loaded.ms));
    turns.without.push(await oneTurn(http, watched, still));
  }
  const shortest = Math.min(...loadMs);
  say(
    `  ${mode}: ${loadMs.length} loads of ${median(loadMs).toFixed(0)} ms, ${shortest.toFixed(0)} at least (${share()})`,
  );
  const bars = Object.keys(watched).map((role) => {
    const [loaded, still] = ['with', 'without'].map((which) => median(turns[which].map(({ late }) => late[role])));
    return {
      what: `p99 of the event loop's delay, ${role} ${mode}, with loads over without`,
      figure: `${loaded.toFixed(1)} - ${still.toFixed(1)} = ${(loaded - still).toFixed(1)} ms`,
      ...{ bar: `at most ${LATE_MAX_MS} ms`, holds: loaded - still <= LATE_MAX_MS },
    };
  });
  const [longest, usual] = ['with', 'without'].map((which) => Math.max(...turns[which].map((turn) => turn.longestMs)));
  bars.push({
    what: `the longest request, ${mode}, while another model loads (${usual.toFixed(0)} ms without)`,
    figure: `${longest.toFixed(0)} ms`,
    ...{ bar: `less than the shortest load, ${shortest.toFixed(0)} ms`, holds: longest < Math.max(shortest, usual) },
  });
  return bars;
}

/** Clients ask while `work` goes on: how late the loops were, and the longest request. */
async function oneTurn(http, watched, work) {
  await lateness(watched);
  let isOver = false;
  let longestMs = 0;
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (!isOver) {
      const start = performance.now();
      await posted(`${http}/v2/models/${STEADY}/infer`, BODY);
      longestMs = Math.max(longestMs, performance.now() - start);
    }
  });
  const start = performance.now();
  await work();
  const ms = performance.now() - start;
  const late = await lateness(watched);
  isOver = true;
  await Promise.all(clients);
  return { late, longestMs, ms };
}

/** The 99th percentile since the last look, in ms, by role; of one process both are the same look. */
async function lateness(watched) {
  const looks = new Map([...new Set(Object.values(watched))].map((url) => [url, lateMs(url)]));
  const entries = Object.entries(watched).map(async ([role, url]) => [role, await looks.get(url)]);
  return Object.fromEntries(await Promise.all(entries));
}

async function lateMs(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const [, seconds] = /^nereid_event_loop_delay_seconds\{quantile="0\.99"\} (\S+)/m.exec(text) ?? [];
  return Number(seconds) * 1000;
}

async function posted(url, body = '{}') {
  const answer = await fetch(url, { method: 'POST', body });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text}`);
}
