/** Nereid as it is started by its command: metrics on, no cache, no journal but where its flags ask for it. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandFile } from '../../deploy/setup/checkout.mjs';
import { freePorts } from '../free-ports.mjs';
import { hasRedis, startPrivateRedis } from '../private-redis.mjs';
import { whenReady } from './rivals/rival-process.mjs';
import { v2Request } from './rivals/v2-wire.mjs';

const PROFILE_HOOK = fileURLToPath(new URL('./profile-hook.mjs', import.meta.url));
const STOP_LIMIT_MS = 20_000;
const OUTPUT_CHARACTERS_MAX = 4_000;
const READY_PATH = '/v2/health/ready';
const RESULT_WAIT = '?wait=20s';

/**
 * Nereid's columns of one build, whose names begin with `prefix`.
 *
 * @param {{ prefix?: string, cli?: string, workerFlags?: string[] }} [build] `cli` is its main.js; flags that only the
 *   worker takes
 * @returns {readonly import('./columns.mjs').Column[]}
 */
export function nereidColumns({ prefix = '', cli = commandFile(), workerFlags = [] } = {}) {
  const column = (name, title, start, needsRedis) => ({
    name: `${prefix}${name}`,
    title: `${prefix}${title}`,
    serves: () => true,
    missing: async () => (needsRedis && !hasRedis() ? 'no Redis server is on PATH' : undefined),
    start: (options) => start({ cli, workerFlags, ...options }),
    request,
  });
  return [
    column('one', 'Nereid, one process', startOne, false),
    column('apart', 'Nereid, processes apart', startApart, true),
    column('doors', 'Nereid, gateway apart from the rest', startDoors, true),
  ];
}

/** A job is submitted, then its result is waited for. */
function request(row) {
  const asked = v2Request(row);
  if (!row.jobs) return asked;
  return {
    ...asked,
    path: `/v2/models/${row.model}/jobs`,
    follow: { field: 'result_url', query: RESULT_WAIT },
  };
}

async function startOne({ cli, workerFlags, models, port, place, flags = [], profiles }) {
  const [grpcPort] = await freePorts(1);
  const all = [`--model-repository=${models}`, ...doors(port, grpcPort), ...flags, ...workerFlags];
  const processes = { serve: startNode(cli, 'serve', all, { place, profiles }) };
  return whenReady({ port, grpcPort, path: READY_PATH, processes });
}

async function startApart({ cli, workerFlags, models, port, place, flags = [], profiles }) {
  const redis = await startPrivateRedis();
  const [grpcPort] = await freePorts(1);
  const at = `--redis-url=${redis.url}`;
  const holds = [at, `--model-repository=${models}`, ...flags];
  const processes = {
    gateway: startNode(cli, 'gateway', [at, ...doors(port, grpcPort)], { place, profiles }),
    coordinator: startNode(cli, 'coordinator', holds, { place, profiles }),
    worker: startNode(cli, 'worker', [...holds, ...workerFlags], { place, profiles }),
  };
  return whenReady({ port, grpcPort, path: READY_PATH, processes, redis });
}

/** Coordinator and worker share a process, which also has a gateway that nobody can reach. */
async function startDoors({ cli, workerFlags, models, port, place, flags = [], profiles }) {
  const redis = await startPrivateRedis();
  const [grpcPort] = await freePorts(1);
  const at = `--redis-url=${redis.url}`;
  const inner = [
    at,
    `--model-repository=${models}`,
    '--allow-http=false',
    '--allow-grpc=false',
    ...flags,
    ...workerFlags,
  ];
  const processes = {
    gateway: startNode(cli, 'gateway', [at, ...doors(port, grpcPort)], { place, profiles }),
    serve: startNode(cli, 'serve', inner, { place, profiles }),
  };
  return whenReady({ port, grpcPort, path: READY_PATH, processes, redis });
}

const doors = (port, grpcPort) => [`--http-port=${port}`, `--grpc-port=${grpcPort}`];

function startNode(cli, role, flags, { place, profiles }) {
  const hook = profiles === undefined ? [] : ['--import', PROFILE_HOOK];
  const child = spawn(process.execPath, [...hook, cli, role, '--metrics-port=0', '--log-info=false', ...flags], {
    cwd: place,
    env: { ...process.env, ...(profiles === undefined ? {} : { BENCH_PROFILES: join(profiles, role) }) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr.on('data', (chunk) => {
    output = `${output}${chunk}`.slice(-OUTPUT_CHARACTERS_MAX);
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  return {
    pid: child.pid,
    output: () => output,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    async stop() {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
      await ended;
      clearTimeout(late);
    },
  };
}
