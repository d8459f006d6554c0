import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { becomesOk } from '../../../deploy/setup/ready.mjs';

const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 10_000;
/** A server that answers over HTTP listens for gRPC too by then, or has none. */
const GRPC_LIMIT_MS = 2_000;
const GRPC_LOOK_MS = 50;
const OUTPUT_CHARACTERS_MAX = 4_000;

/** Starts a program in a process group of its own, so that what it starts in turn ends with it. */
export function startRival(command, args, environment = {}) {
  const child = spawn(command, args, {
    detached: true,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output = `${output}${chunk}`.slice(-OUTPUT_CHARACTERS_MAX);
    });
  }
  const ended = new Promise((resolve, reject) => {
    child.once('exit', resolve);
    child.once('error', reject);
  });
  ended.catch(() => {});
  const signalGroup = (signal) => {
    try {
      process.kill(-child.pid, signal);
    } catch {
      // All of it has ended.
    }
  };
  return {
    pid: child.pid,
    leadsGroup: true,
    output: () => output,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    async stop() {
      signalGroup('SIGTERM');
      await Promise.race([ended, delay(STOP_LIMIT_MS, undefined, { ref: false })]);
      signalGroup('SIGKILL');
    },
  };
}

/**
 * The running server of a rival once it answers: `{ port, grpcPort, lacksGrpc, pids, redis, stop }`, `pids` by what each
 * is. `lacksGrpc`: nothing listens on the port that it was given for gRPC.
 *
 * @param {{ port: number, grpcPort?: number, path: string, processes: Record<string, ReturnType<typeof startRival>>,
 *   redis?: object }} of `path` answers 200 where it is ready
 */
export async function whenReady({ port, grpcPort, path, processes, redis }) {
  const all = Object.values(processes);
  const stop = async () => {
    await Promise.all(all.map((one) => one.stop()));
    await redis?.stop();
  };
  const hasEnded = () => all.some((one) => one.hasEnded());
  if (!(await becomesOk(`http://127.0.0.1:${port}${path}`, hasEnded, START_LIMIT_MS))) {
    const what = hasEnded() ? 'it ended' : `it is not ready after ${START_LIMIT_MS} ms`;
    await stop();
    throw new Error(`${what}:\n${all.map((one) => one.output()).join('\n')}`);
  }
  return {
    port,
    grpcPort,
    lacksGrpc: grpcPort !== undefined && !(await becomesOpen(grpcPort)),
    pids: Object.fromEntries(Object.entries(processes).map(([role, { pid }]) => [role, pid])),
    redis,
    /** Each process leads its group, so all that it started can be stopped with it. */
    canRest: all.every(({ leadsGroup }) => leadsGroup === true),
    stop,
  };
}

async function becomesOpen(port) {
  for (const start = performance.now(); performance.now() - start < GRPC_LIMIT_MS; await delay(GRPC_LOOK_MS)) {
    const socket = connect(port, '127.0.0.1');
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return true;
  }
  return false;
}
