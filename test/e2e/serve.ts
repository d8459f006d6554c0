import { once } from 'node:events';
import { createServer } from 'node:net';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { type Command, runCli } from '../command.mjs';
import { freePorts } from '../free-ports.mjs';

const READY_LIMIT_MS = 50_000;

/** A running server of its own. `http` and `metrics` are base addresses. */
export interface Served extends Command {
  readonly http: string;
  /** `host:port` of gRPC. */
  readonly grpc: string;
  readonly metrics: string;
  readonly ports: readonly number[];
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
  return { ...command, http, grpc: `127.0.0.1:${grpcPort}`, metrics: `http://127.0.0.1:${metricsPort}`, ports };
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
