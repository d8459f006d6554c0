import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CLI } from '../../deploy/setup/checkout.mjs';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { freePorts } from '../free-ports.mjs';

export { ROOT } from '../../deploy/setup/checkout.mjs';

const READY_LIMIT_MS = 50_000;
const STOP_LIMIT_MS = 20_000;

/** How a process ended: its exit code (null where a signal ended it) and all that it wrote. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/** A program as a child process, in an empty working folder. */
export interface Command {
  readonly process: ChildProcess;
  readonly ended: Promise<Ending>;
  output(): string;
  /** Waits until what it has written matches; gives all that. Throws where it ends before. */
  waitFor(text: RegExp): Promise<string>;
}

/** A running server of its own. `http` and `metrics` are base addresses. */
export interface Served extends Command {
  readonly http: string;
  readonly metrics: string;
  readonly ports: readonly number[];
  /** Sends the signal once and waits for the end; past 20 s the process is killed and the call throws. */
  stop(signal?: NodeJS.Signals): Promise<Ending>;
}

/** Runs `nereid ARGS`. */
export function runCli(args: readonly string[]): Command {
  return runScript(CLI, args);
}

/** Runs a script with Node.js. */
export function runScript(script: string, args: readonly string[], environment: Record<string, string> = {}): Command {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-e2e-'));
  const child = spawn(process.execPath, [script, ...args], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  const output = () => Buffer.concat(chunks).toString();
  const ended = once(child, 'close').then(([code, signal]): Ending => {
    rmSync(folder, { recursive: true, force: true });
    return { code, signal, output: output() };
  });
  const waitFor = (text: RegExp) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        if (text.test(output())) resolve(output());
      };
      for (const stream of [child.stdout, child.stderr]) stream.on('data', look);
      look();
      void ended.then(() => reject(new Error(`it ended before ${text}:\n${output()}`)));
    });
  return { process: child, ended, output, waitFor };
}

/** Starts `nereid serve` over the repositories on free ports, and returns once it is ready. */
export async function serve(repositories: readonly string[], flags: readonly string[] = []): Promise<Served> {
  const ports = await freePorts(3);
  const [httpPort, grpcPort, metricsPort] = ports;
  const command = runCli([
    'serve',
    ...repositories.map((folder) => `--model-repository=${folder}`),
    `--http-port=${httpPort}`,
    `--grpc-port=${grpcPort}`,
    `--metrics-port=${metricsPort}`,
    ...flags,
  ]);
  const http = `http://127.0.0.1:${httpPort}`;
  const { process: child } = command;
  if (!(await becomesReady(http, () => child.exitCode !== null || child.signalCode !== null, READY_LIMIT_MS))) {
    child.kill('SIGKILL');
    const { output } = await command.ended;
    throw new Error(`the server is not ready:\n${output}`);
  }
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    command.process.kill(signal);
    const ending = await Promise.race([command.ended, delay(STOP_LIMIT_MS, undefined, { ref: false })]);
    if (ending !== undefined) return ending;
    command.process.kill('SIGKILL');
    throw new Error(`the server did not stop within ${STOP_LIMIT_MS} ms:\n${command.output()}`);
  };
  return { ...command, http, metrics: `http://127.0.0.1:${metricsPort}`, ports, stop };
}

/** Whether a server can listen on the port, on all addresses. */
export async function isPortFree(port: number): Promise<boolean> {
  const server = createServer();
  const outcome = Promise.race([
    once(server, 'listening').then(() => true),
    once(server, 'error').then(
      () => false,
      () => false,
    ),
  ]);
  server.listen(port, '0.0.0.0');
  const isFree = await outcome.catch(() => false);
  if (isFree) await once(server.close(), 'close');
  return isFree;
}
