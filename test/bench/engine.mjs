/** Starts what is compared once, and takes the turns of every cell. */
import { cpSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SAMPLES } from '../../deploy/setup/checkout.mjs';
import { freePorts } from '../free-ports.mjs';
import { makeBenchModels } from './models/make.mjs';
import { addStatelessSilero } from './models/silero.mjs';
import { takesPart } from './plan.mjs';
import { treeSeconds } from './proc-cpu.mjs';
import { startRaw } from './raw-column.mjs';
import { samplesOf, writeRequests } from './requests.mjs';
import { summary } from './statistics.mjs';
import { turn } from './turns.mjs';

/** A model that set-up fetches, and that is served as it is. */
const FETCHED = 'minilm';
/** A server that uses more of a core while nobody asks it anything is stopped between its turns. */
const IDLE_CPU_MAX = 0.01;
const IDLE_LOOK_MS = 2_000;
const SETTLE_MS = 100;
/** Cores that others may use, and the share that the hypervisor may take, in a turn that counts at once. */
const OTHERS_CPU_MAX = 0.3;
const STEAL_MAX = 0.1;
const REPEATS_MAX = 2;
/** A turn that ends before the first answer says nothing: it is taken again, so many times as long. */
const LONGER = 4;
const EMPTY_TURNS_MAX = 4;

/** Makes the repository of all models. @returns {Promise<Set<string>>} their names */
export function writeModels(models) {
  makeBenchModels(models);
  if (existsSync(join(SAMPLES, FETCHED, '1', 'model.onnx'))) {
    cpSync(join(SAMPLES, FETCHED, '1'), join(models, FETCHED, '1'), { recursive: true });
    cpSync(join(SAMPLES, FETCHED, 'config.pbtxt'), join(models, FETCHED, 'config.pbtxt'));
  }
  addStatelessSilero(models);
  return models;
}

/** Why a row cannot be run, or undefined. */
export function missingModel(models, { model }) {
  return existsSync(join(models, model)) ? undefined : `set-up fetches the model: npm run setup`;
}

/**
 * Starts columns, one after the other: the servers that run, and why others do not.
 *
 * @returns {Promise<{ servers: object[], notRun: Record<string, string> }>}
 */
export async function startServers(columns, { models, folder, say }) {
  const servers = [];
  const notRun = {};
  const leaveOut = (column, why) => {
    notRun[column.name] = why;
    say(`${column.title}: not run (${why})`);
  };
  for (const column of columns) {
    const why = await column.missing();
    if (why !== undefined) {
      leaveOut(column, why);
      continue;
    }
    const place = join(folder, `place-${column.name.replaceAll(':', '-')}`);
    mkdirSync(place);
    const [port] = await freePorts(1);
    try {
      const server = await column.start({ port, models, place });
      if (server.lacksGrpc)
        leaveOut({ name: `${column.name}, gRPC`, title: `${column.title}, gRPC` }, 'this build has none');
      servers.push({ column: server.lacksGrpc ? withoutGrpc(column) : column, ...(await withRedis(server)) });
    } catch (error) {
      leaveOut(column, `it does not start: ${error.message.trim().split('\n').slice(0, 3).join(' ')}`);
    }
  }
  return { servers, notRun };
}

/** The column, but for the cells of gRPC. */
function withoutGrpc(column) {
  return { ...column, serves: (of) => of.encoding !== 'grpc' && column.serves(of) };
}

/** With Redis' own process among the others. */
export async function withRedis(server) {
  if (server.redis === undefined) return server;
  const [, pid] = /process_id:(\d+)/.exec(await server.redis.ask('INFO', 'server'));
  return { ...server, pids: { ...server.pids, redis: Number(pid) } };
}

/** Finds out which servers use the CPU while nobody asks them anything; `rest` and `wake` stop those and let them go on. */
export async function restWhereHot(servers, say) {
  const before = servers.map(({ pids }) => treeSeconds(pids));
  await delay(IDLE_LOOK_MS);
  return servers.map((server, index) => {
    const after = treeSeconds(server.pids);
    const used = Object.keys(after).reduce((sum, name) => sum + after[name] - before[index][name], 0);
    const idleCpu = (used * 1000) / IDLE_LOOK_MS;
    const rests = idleCpu > IDLE_CPU_MAX && server.canRest === true;
    if (idleCpu > IDLE_CPU_MAX) {
      const what = rests ? 'stopped between its turns' : 'left running';
      say(`${server.column.title}: idles at ${(idleCpu * 100).toFixed(1)} % of a core, ${what}`);
    }
    const signal = (name) => {
      if (!rests) return;
      // Its Redis goes on: it leads no group, and idles cheaply.
      for (const [role, pid] of Object.entries(server.pids)) if (role !== 'redis') process.kill(-pid, name);
    };
    const sleeper = { ...server, rest: () => signal('SIGSTOP'), wake: () => signal('SIGCONT') };
    sleeper.rest();
    return sleeper;
  });
}

/**
 * Measures all cells.
 *
 * @param {{ cells: object[], times: object, raw: boolean }} of as `plan` gives them
 * @returns {Promise<object[]>} the cells of a report
 */
export async function measure({ cells, times, raw }, { servers, models, folder, generator, repeatSeconds, say }) {
  const harness = raw ? startRaw(models) : undefined;
  const budget = { left: repeatSeconds };
  const found = [];
  try {
    let of;
    for (const cell of cells) {
      if (of?.row !== cell.row.name) {
        of = { row: cell.row.name, samples: await samplesOf(models, cell.row.model) };
        if (cells.some(({ row, raw: batches }) => row.name === of.row && batches !== undefined)) {
          await harness?.load(cell.row.model, of.samples);
        }
        of.warmUp = times.firstWarmUp;
      }
      const runs = cellRuns(cell, { servers, harness, samples: of.samples, folder, generator, times });
      for (const run of runs) await run.warm(of.warmUp);
      of.warmUp = times.nextWarmUp;
      const turns = await takeTurns(runs, { times, budget, say });
      const columns = Object.fromEntries(
        Object.entries(turns).map(([name, taken]) => [name, { summary: summary(taken), turns: taken }]),
      );
      const { row, encoding, concurrency } = cell;
      const done = { row: row.name, title: row.title, jobs: row.jobs === true, encoding, concurrency, columns };
      say(cellText(done));
      found.push(done);
    }
    return found;
  } finally {
    await harness?.stop();
  }
}

/** What takes turns in a cell: `{ name, warm, take }`. */
function cellRuns(cell, { servers, harness, samples, folder, generator, times }) {
  const place = mkdtempSync(join(folder, 'requests-'));
  const raws = (harness === undefined ? [] : (cell.raw ?? [])).map((batch) => ({
    name: `raw ${batch}`,
    warm: async () => {},
    take: () => harness.turn({ batch, seconds: times.seconds, warmUp: times.warmUp }),
  }));
  const served = servers
    .filter(({ column }) => takesPart(column, cell))
    .map((server) => {
      const requests = writeRequests({ ...cell, column: server.column, samples, folder: place });
      const load = async (seconds, warmUp) => {
        server.wake();
        await delay(SETTLE_MS);
        const file = join(place, 'answers');
        const { concurrency } = cell;
        let figures = await turn({ generator, server, requests, concurrency, seconds, warmUp, file });
        for (let tries = 1; figures.n === 0 && tries < EMPTY_TURNS_MAX; tries++) {
          const longer = seconds * LONGER ** tries;
          figures = await turn({ generator, server, requests, concurrency, seconds: longer, warmUp, file });
        }
        server.rest();
        if (figures.errors > 0) {
          throw new Error(`${server.column.title}, ${cell.row.name}: ${figures.errors} errors (${figures.last_error})`);
        }
        return figures;
      };
      return {
        name: server.column.name,
        warm: (seconds) => load(seconds, 0),
        take: () => load(times.seconds, times.warmUp),
      };
    });
  return [...raws, ...served];
}

/** Each one's turns; the order is turned round every time. A turn that others disturbed is taken again, within limits. */
export async function takeTurns(runs, { times, budget, say }) {
  const turns = Object.fromEntries(runs.map(({ name }) => [name, []]));
  for (let round = 0; round < times.turns; round++) {
    for (const { name, take } of round % 2 === 0 ? runs : runs.toReversed()) {
      let taken = await take();
      let repeated = 0;
      while (isDisturbed(taken) && repeated < REPEATS_MAX && budget.left >= times.seconds) {
        const began = performance.now();
        repeated += 1;
        const again = await take();
        budget.left -= (performance.now() - began) / 1000;
        if (again.other_cpu < taken.other_cpu) taken = again;
      }
      if (repeated > 0) {
        say(
          `    ${name}, turn ${round + 1}: repeated ${repeated} times, others used ${taken.other_cpu.toFixed(2)} cores`,
        );
      }
      turns[name].push({ ...taken, repeated, disturbed: isDisturbed(taken) });
    }
  }
  return turns;
}

export const isDisturbed = ({ other_cpu: others, steal }) => others > OTHERS_CPU_MAX || steal > STEAL_MAX;

function cellText({ row, encoding, concurrency, columns }) {
  const shown = ({ median, min, max }, digits) =>
    `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
  const lines = Object.entries(columns).map(([name, { summary: of }]) => {
    const cpu = Object.entries(of.cpu_us).map(([role, us]) => `${role} ${us.toFixed(0)}`);
    const commands = of.commands === undefined ? '' : `, commands ${of.commands.called.toFixed(2)} called`;
    const disturbed = of.disturbed === 0 ? '' : `, ${of.disturbed} turns disturbed`;
    return (
      `  ${name}: p50 ms ${shown(of.p50_ms, 3)}, req/s ${shown(of.rps, 0)}, others' CPU ${shown(of.others_cpu, 2)}` +
      `${disturbed}\n      CPU us/request: ${cpu.join(', ')}${commands}`
    );
  });
  return `${row} ${encoding} c=${concurrency}\n${lines.join('\n')}`;
}
