/** The servers that are compared. Each is one or more processes, ready when `start` resolves. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../free-ports.mjs';
import { startPrivateRedis } from '../private-redis.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 20_000;
const POLL_MS = 30;

/**
 * By name: `start({ cli, model, repository, place, profiles })` gives `{ port, pids, redis, stop }`; `pids` names every
 * process of it. `place` is a folder of its own, where it may write. With `profiles`, a folder, each Node process writes a CPU profile there when it ends.
 */
export const COLUMNS = {
  one: { title: 'Nereid, one process', start: startOne },
  apart: { title: 'Nereid, processes apart', start: startApart },
  doors: { title: 'Nereid, gateway apart from coordinator and worker', start: startDoors },
  triton: { title: 'Triton (Python backend)', start: startTriton },
};

/** Why a column cannot run here; undefined where it can. */
export function missing(name) {
  if (name !== 'triton' || existsSync(join(tritonEnvironment(), 'bin/python'))) return undefined;
  return 'test/bench/triton/setup.sh installs it, or ORACLE_VENV names its environment';
}

async function startOne({ cli, model, repository, place, profiles }) {
  const [port] = await freePorts(1);
  const flags = [`--model-repository=${repository}`, `--http-port=${port}`];
  return whenReady({ model, port, processes: { serve: startNode(cli, 'serve', flags, { place, profiles }) } });
}

async function startApart({ cli, model, repository, place, profiles }) {
  const redis = await startPrivateRedis();
  const [port] = await freePorts(1);
  const at = `--redis-url=${redis.url}`;
  const models = `--model-repository=${repository}`;
  const processes = {
    gateway: startNode(cli, 'gateway', [at, `--http-port=${port}`], { place, profiles }),
    coordinator: startNode(cli, 'coordinator', [at, models], { place, profiles }),
    worker: startNode(cli, 'worker', [at, models], { place, profiles }),
  };
  return whenReady({ model, port, processes, redis });
}

/** Coordinator and worker share a process, which also has a gateway that nobody can reach. */
async function startDoors({ cli, model, repository, place, profiles }) {
  const redis = await startPrivateRedis();
  const [port] = await freePorts(1);
  const at = `--redis-url=${redis.url}`;
  const inner = [at, `--model-repository=${repository}`, '--allow-http=false'];
  const processes = {
    gateway: startNode(cli, 'gateway', [at, `--http-port=${port}`], { place, profiles }),
    serve: startNode(cli, 'serve', inner, { place, profiles }),
  };
  return whenReady({ model, port, processes, redis });
}

async function startTriton({ model }) {
  const ports = await freePorts(3);
  const [http, grpc, metrics] = ports;
  const flags = [`--http-port=${http}`, `--grpc-port=${grpc}`, `--metrics-port=${metrics}`, '--log-info=false'];
  const triton = startProcess(join(here, 'triton/triton.sh'), [join(here, 'triton/repo'), ...flags], {
    env: { ...process.env, ORACLE_VENV: tritonEnvironment() },
  });
  return whenReady({ model, port: http, processes: { triton } });
}

function tritonEnvironment() {
  return process.env.ORACLE_VENV ?? join(here, 'triton/venv');
}

function startNode(cli, role, flags, { place, profiles }) {
  const profile = profiles === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${join(profiles, role)}`];
  const args = [...profile, cli, role, '--metrics-port=0', '--log-info=false', ...flags];
  return startProcess(process.execPath, args, { cwd: place });
}

function startProcess(command, args, options) {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'], ...options });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  return {
    pid: child.pid,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    async stop() {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
      await ended;
      clearTimeout(late);
    },
  };
}

/** `stop` ends the roles one after the other, as requests travel. */
async function whenReady({ model, port, processes, redis }) {
  const all = Object.values(processes);
  const stop = async () => {
    for (const one of all) await one.stop();
    await redis?.stop();
  };
  const hasEnded = () => all.some((one) => one.hasEnded());
  if (!(await answers(`http://127.0.0.1:${port}/v2/models/${model}/ready`, hasEnded))) {
    await stop();
    throw new Error(`not ready: ${hasEnded() ? 'a process ended' : 'still starting'}`);
  }
  const pids = Object.fromEntries(Object.entries(processes).map(([role, { pid }]) => [role, pid]));
  if (redis !== undefined) pids.redis = Number(/process_id:(\d+)/.exec(await redis.ask('INFO', 'server'))[1]);
  return { port, pids, redis, stop };
}

async function answers(url, hasEnded) {
  for (const start = performance.now(); performance.now() - start < START_LIMIT_MS; await delay(POLL_MS)) {
    if (hasEnded()) return false;
    const response = await fetch(url).catch(() => undefined);
    await response?.arrayBuffer();
    if (response?.ok) return true;
  }
  return false;
}
