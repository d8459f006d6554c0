/** One turn of load on one server, and what it cost: CPU by process, Redis commands. Every kept answer is checked. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../deploy/setup/command.mjs';
import { readSamples } from './samples.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
/** Of each worker of the generator, its first included: at least 1 % of all answers are checked. */
const CHECK_EVERY = 50;
const CHECKED_SHARE_MIN = 0.01;
/** What the lanes call themselves; every other command of a turn is called by a script of theirs, or rare. */
const CALLED_BY_CLIENTS = ['evalsha', 'eval', 'blmpop'];
const SELDOM = 0.01;

/** The generator in Go, built, or that in Node, which is for HTTP only, where there is no Go: `{ name, command, grpc }`. */
export function loadGenerator() {
  const folder = join(here, 'loadgen');
  if (findProgram('go') === undefined) {
    return { name: 'Node', command: [process.execPath, join(folder, 'loadgen.mjs')], grpc: false };
  }
  const built = spawnSync('go', ['build', '-o', 'loadgen', '.'], { cwd: folder, stdio: 'inherit' });
  if (built.status !== 0) throw new Error('the load generator did not build: install Go 1.22 or later');
  return { name: 'Go', command: [join(folder, 'loadgen')], grpc: true };
}

/**
 * Loads a server for so long. Answers the generator's figures, `cpu_us` per request by process, `checked` (how many
 * answers were), and per request the Redis commands by name. Throws for a wrong answer.
 *
 * @param {{ generator: { command: string[] },
 *   server: { port: number, grpcPort?: number, pids: Record<string, number>, redis?: object },
 *   requests: { mode?: 'grpc', path: string, headers: string[], bodies: string[], checks: Function[], follow?: object,
 *     own?: boolean },
 *   concurrency: number, seconds: number, warmUp: number, count?: number, file: string }} of `file` is
 *   for the answers; `own`: each client sends one of the bodies only
 */
export async function turn({ generator, server, requests, concurrency, seconds, warmUp, count, file }) {
  const commandsBefore = await commandCalls(server.redis);
  const figures = await load(generator, [
    ...(requests.mode === 'grpc'
      ? ['-mode', 'grpc', '-addr', `127.0.0.1:${server.grpcPort}`]
      : ['-addr', `127.0.0.1:${server.port}`]),
    ...requestFlags(requests),
    ...(requests.follow === undefined
      ? []
      : ['-follow', requests.follow.field, '-follow-query', requests.follow.query]),
    ...['-c', `${concurrency}`, '-d', `${seconds}`, '-w', `${warmUp}`],
    ...(count === undefined ? [] : ['-n', `${count}`]),
    ...samplesTo(file),
    ...Object.entries(server.pids).flatMap(([name, pid]) => ['-pid', `${name}=${pid}`]),
  ]);
  const commandsAfter = await commandCalls(server.redis);
  const checked = checkAnswers(file, requests.checks);
  if (checked < figures.all * CHECKED_SHARE_MIN)
    throw new Error(`only ${checked} of ${figures.all} answers are checked`);
  const { cpu_s: cpuS, ...rest } = figures;
  const calls = Object.keys(commandsAfter).map((name) => [
    name,
    (commandsAfter[name] - (commandsBefore[name] ?? 0)) / figures.all,
  ]);
  return {
    ...rest,
    checked,
    cpu_us: Object.fromEntries(Object.entries(cpuS).map(([name, s]) => [name, (s * 1e6) / figures.n])),
    ...(server.redis === undefined ? {} : { commands: summed(Object.fromEntries(calls)) }),
  };
}

/**
 * Loads several servers in turn for `slice` seconds each, again and again, so that what else the machine does meets all
 * alike; `seconds` and `warmUp` are of each. By HTTP, with the generator in Go alone. Answers the figures of each, in
 * their order. Throws for a wrong answer.
 *
 * @param {{ generator: { command: string[] }, servers: { port: number, pids: Record<string, number> }[],
 *   requests: object, concurrency: number, seconds: number, warmUp: number, slice: number,
 *   file: string }} of `requests` as for a turn, one or more for all of them
 * @returns {Promise<{ rps: number, n: number, all: number, errors: number, last_error?: string,
 *   cpu_us: Record<string, number>, other_cpu: number, steal: number }[]>}
 */
export async function turnOfEach({ generator, servers, requests, concurrency, seconds, warmUp, slice, file }) {
  const [first, ...others] = servers.map(({ port }) => `127.0.0.1:${port}`);
  const {
    sides,
    cpu_s: cpuS,
    other_cpu,
    steal,
  } = await load(generator, [
    ...['-addr', first, ...others.flatMap((addr) => ['-beside', addr]), '-slice', `${slice}`],
    ...requestFlags(requests),
    ...['-c', `${concurrency}`, '-d', `${seconds}`, '-w', `${warmUp}`],
    ...samplesTo(file),
    ...servers.flatMap(({ pids }, index) =>
      Object.entries(pids).flatMap(([name, pid]) => ['-pid', `${index}/${name}=${pid}`]),
    ),
  ]);
  const checked = checkAnswers(file, requests.checks);
  const all = sides.reduce((sum, side) => sum + side.all, 0);
  if (checked < all * CHECKED_SHARE_MIN) throw new Error(`only ${checked} of ${all} answers are checked`);
  return sides.map((side, index) => {
    const cpu = Object.keys(servers[index].pids).map((name) => [name, (cpuS[`${index}/${name}`] * 1e6) / side.n]);
    return { ...side, cpu_us: Object.fromEntries(cpu), other_cpu, steal };
  });
}

const requestFlags = ({ path, bodies, headers, own }) => [
  ...['-path', path],
  ...bodies.flatMap((body) => ['-body', body]),
  ...headers.flatMap((header) => ['-H', header]),
  ...(own === true ? ['-own'] : []),
];

const samplesTo = (file) => ['-sample', `${CHECK_EVERY}`, '-samples', file];

/** @returns {number} how many there were */
function checkAnswers(file, checks) {
  const samples = readSamples(readFileSync(file));
  rmSync(file);
  for (const { request, headers, body } of samples) {
    const wrong = checks[request](body, headers);
    if (wrong !== undefined) throw new Error(`a wrong answer: ${wrong}`);
  }
  return samples.length;
}

async function load({ command: [program, ...args] }, more) {
  const child = spawn(program, [...args, ...more], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  child.stdout.on('data', (text) => {
    output += text;
  });
  child.stderr.on('data', (text) => {
    errors += text;
  });
  const code = await new Promise((resolve, reject) => {
    child.once('close', resolve);
    child.once('error', reject);
  });
  if (code !== 0) throw new Error(`the load generator ended with ${code}: ${errors}`);
  return JSON.parse(output);
}

/** `all`, `called` (by clients) and each by name; names seldom called are left out. */
function summed(byName) {
  const all = Object.values(byName).reduce((sum, calls) => sum + calls, 0);
  const called = CALLED_BY_CLIENTS.reduce((sum, name) => sum + (byName[name] ?? 0), 0);
  const often = Object.entries(byName).filter(([, calls]) => calls >= SELDOM);
  return { all, called, by_name: Object.fromEntries(often) };
}

/** INFO commandstats counts what a script calls as well as the call of the script. */
async function commandCalls(redis) {
  if (redis === undefined) return {};
  const lines = (await redis.ask('INFO', 'commandstats')).matchAll(/cmdstat_([^:]+):calls=(\d+)/g);
  return Object.fromEntries([...lines].map(([, name, calls]) => [name, Number(calls)]));
}
