import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const CLI = join(ROOT, 'packages', 'cli', 'dist', 'main.js');
const READY_POLL_MS = 30;
const READY_LIMIT_MS = 50_000;
const STOP_LIMIT_MS = 20_000;

/** How a process ended: its exit code (null where a signal ended it) and all that it wrote. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/** The real command as a child process, in an empty working folder. */
export interface Command {
  readonly process: ChildProcess;
  readonly ended: Promise<Ending>;
  output(): string;
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
export function runCli(args: readonly string[], environment: Record<string, string> = {}): Command {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-e2e-'));
  const child = spawn(process.execPath, [CLI, ...args], {
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
  return { process: child, ended, output };
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
  await waitUntilReady(command, http);
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    command.process.kill(signal);
    const ending = await Promise.race([command.ended, delay(STOP_LIMIT_MS, undefined, { ref: false })]);
    if (ending !== undefined) return ending;
    command.process.kill('SIGKILL');
    throw new Error(`the server did not stop within ${STOP_LIMIT_MS} ms:\n${command.output()}`);
  };
  return { ...command, http, metrics: `http://127.0.0.1:${metricsPort}`, ports, stop };
}

async function waitUntilReady(command: Command, http: string): Promise<void> {
  for (const start = performance.now(); performance.now() - start < READY_LIMIT_MS; await delay(READY_POLL_MS)) {
    if (command.process.exitCode !== null || command.process.signalCode !== null) {
      const { output } = await command.ended;
      throw new Error(`the server ended before it was ready:\n${output}`);
    }
    const response = await fetch(`${http}/v2/health/ready`).catch(() => undefined);
    await response?.arrayBuffer();
    if (response?.ok) return;
  }
  command.process.kill('SIGKILL');
  throw new Error(`the server is not ready:\n${command.output()}`);
}

/** Ports that were free a moment ago. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  const ports: number[] = [];
  for (const server of servers) {
    if (!server.listening) await once(server, 'listening');
    const address = server.address();
    if (address !== null && typeof address === 'object') ports.push(address.port);
  }
  for (const server of servers) await once(server.close(), 'close');
  return ports;
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
