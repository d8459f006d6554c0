/** Each role as it is started in a process, alone or with the others. */
import { DEFAULTS, LIMITS, LOAD_FAILED, type ModelRecord } from '@nereid/config';
import { type Coordinator, createCoordinator, type LoadFailure } from '@nereid/coordinator';
import {
  createGateway,
  createHttpServer,
  createJobs,
  createMetricsServer,
  type Gateway,
  type HttpServer,
  type MetricsServer,
} from '@nereid/gateway';
import { NereidError } from '@nereid/protocol';
import { type Clock, type Log, newProcessId, packageVersion, type Registry } from '@nereid/runtime';
import { type Directory, type Timing, type Transport, timing } from '@nereid/transport';
import { createWorker, type Worker } from '@nereid/worker';
import { globMatcher } from './glob.ts';
import type { ModelFiles } from './model-files.ts';
import type { JobsParts, OpenedJobs } from './open-jobs.ts';
import type { ListenerOptions, ServerOptions } from './server-options.ts';

/** What the roles of a process share. */
export interface Shared {
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  /** Absent where all roles are in this process and no message is ever lost. */
  readonly timing?: Timing;
}

export function jobsParts(options: ServerOptions, { clock, log, timing: given }: Shared): JobsParts {
  return { prefix: options.jobPrefix, clock, log, timing: given ?? timing(options.timeScale ?? 1) };
}

export function newGateway(shared: Shared, options: ServerOptions): Gateway {
  return createGateway({
    ...shared,
    id: newProcessId('gw'),
    limits: LIMITS,
    strictReadiness: options.strictReadiness ?? true,
  });
}

export async function startWorker(
  shared: Shared,
  options: ServerOptions,
  files: Pick<ModelFiles, 'findModel' | 'hashModel'>,
  gpus: number,
): Promise<Worker> {
  const worker = createWorker({
    ...shared,
    id: newProcessId('wk'),
    findModel: files.findModel,
    hashModel: files.hashModel,
    gpus,
    backendSettings: options.backendConfig ?? {},
    loadsMax: options.modelLoadThreads ?? DEFAULTS.model_load_threads,
    limits: LIMITS,
    ...(options.workerModels === undefined ? {} : { holds: globMatcher(options.workerModels) }),
  });
  await worker.start();
  return worker;
}

export function newCoordinator(
  shared: Shared,
  registry: Registry,
  options: ServerOptions,
  files: ModelFiles,
  jobs: OpenedJobs,
): Coordinator {
  return createCoordinator({
    ...shared,
    id: newProcessId('co'),
    registry,
    reader: files.reader,
    jobs: jobs.queues,
    options: {
      controlMode: options.modelControlMode ?? 'none',
      ...(options.loadModels === undefined ? {} : { loadModels: options.loadModels }),
      ...(options.modelLoadThreads === undefined ? {} : { modelLoadThreads: options.modelLoadThreads }),
    },
  });
}

/** Loads what the control mode asks for. Throws the first failure where `exitOnError` is set. */
export async function loadAtStart(coordinator: Coordinator, exitOnError: boolean): Promise<readonly LoadFailure[]> {
  const failures = await coordinator.start();
  const [first] = failures;
  if (first === undefined || !exitOnError) return failures;
  const others = failures.length === 1 ? '' : ` (and ${failures.length - 1} more)`;
  const text = `failed to load model '${first.model}'${others}: ${first.error.message.trim()}`;
  throw new NereidError(first.error.code, text, { reason: LOAD_FAILED });
}

export function newHttpServer(
  options: ServerOptions,
  gateway: Gateway,
  { clock, log, directory }: Shared,
  { queues }: OpenedJobs,
): HttpServer | undefined {
  if (options.http === undefined) return undefined;
  return createHttpServer({
    gateway,
    clock,
    log,
    ...(queues === undefined ? {} : { jobs: createJobs({ queues, directory, clock }) }),
    serverId: options.id ?? DEFAULTS.server_id,
    version: packageVersion(import.meta.url),
    address: options.http.address ?? DEFAULTS.address,
    port: options.http.port,
    maxInputBytes: options.http.maxInputBytes ?? LIMITS.body_bytes_max,
  });
}

/** What a metrics port tells of its process besides the metrics. */
export interface Health {
  live(): boolean;
  ready(): boolean;
}

export function newMetricsServer(
  listener: ListenerOptions | undefined,
  registry: Registry,
  health: Health,
  log: Log,
): MetricsServer | undefined {
  if (listener === undefined) return undefined;
  return createMetricsServer({
    registry,
    log,
    address: listener.address ?? DEFAULTS.address,
    port: listener.port,
    live: () => health.live(),
    ready: () => health.ready(),
  });
}
