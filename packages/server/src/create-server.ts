import { setMaxListeners } from 'node:events';
import { DEFAULTS, LIMITS, LOAD_FAILED, type ModelRecord } from '@nereid/config';
import { type Coordinator, createCoordinator, type LoadFailure } from '@nereid/coordinator';
import {
  createGateway,
  createHttpServer,
  createMetricsServer,
  type Gateway,
  type HttpServer,
  type MetricsServer,
} from '@nereid/gateway';
import { NereidError } from '@nereid/protocol';
import {
  type Clock,
  createLifecycle,
  createLog,
  createRegistry,
  type Lifecycle,
  type Log,
  newProcessId,
  packageVersion,
  type Registry,
  systemClock,
} from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, type Directory, type Transport } from '@nereid/transport';
import { createWorker, type Worker } from '@nereid/worker';
import { checkServerOptions } from './check-options.ts';
import { countGpus } from './count-gpus.ts';
import { type InferInput, type InferResult, inferRequest, inferResult } from './infer-values.ts';
import { type ModelFiles, modelFiles } from './model-files.ts';
import type { ListenerOptions, ServerOptions } from './server-options.ts';

const STOP_DEADLINE_MS = DEFAULTS.exit_timeout_s * 1000;

/** A running server: gateway, coordinator and worker in this process. */
export interface Server {
  /** Bound addresses and ports (`http://0.0.0.0:8000`); a listener that was not asked for is absent. */
  readonly urls: { readonly http?: string; readonly metrics?: string };
  /**
   * Runs one request. Throws a NereidError with the code and text that HTTP would answer.
   * An aborted signal cancels it wherever it is.
   */
  infer(input: InferInput, options?: { readonly signal?: AbortSignal }): Promise<InferResult>;
  /** Only with `modelControlMode: 'explicit'`. Resolves when ready; throws why not. */
  loadModel(name: string): Promise<ModelRecord>;
  /** Only with `explicit`. Resolves when gone; also for a model that is not loaded. */
  unloadModel(name: string): Promise<void>;
  /** Every model known, by name. */
  models(): readonly ModelRecord[];
  /** The models that did not load at start, with why. */
  readonly loadFailures: readonly LoadFailure[];
  live(): boolean;
  ready(): boolean;
  /**
   * Refuses new requests, finishes those accepted (30 s at most, or `deadlineMs`), frees everything.
   * A run in native code that is still going then is waited for: it cannot be cut short. Idempotent.
   */
  stop(options?: { readonly deadlineMs?: number }): Promise<void>;
  /** What is going on; all zero once idle. For leak tests and for the curious. */
  counts(): ServerCounts;
}

export interface ServerCounts {
  /** Requests that somebody waits for. */
  readonly waiting: number;
  readonly queued: number;
  readonly running: number;
  /** Batches that instances hold. */
  readonly batches: number;
  readonly timers: number;
}

/**
 * Starts a server in the caller's process: the counterpart of Triton's C API, and what
 * `nereid serve` is built on. Resolves when every model is ready or has failed.
 * Throws a NereidError where an option cannot be used, a repository cannot be read, a port cannot be had or, with
 * `exitOnError`, a model does not load; what had started is stopped before.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
  checkServerOptions(options);
  const lifecycle = createLifecycle();
  try {
    return await startParts(options, lifecycle);
  } catch (failure) {
    await lifecycle.stop();
    throw failure;
  }
}

async function startParts(options: ServerOptions, lifecycle: Lifecycle): Promise<Server> {
  const clock = systemClock();
  const log = options.log ?? createLog({ level: 'silent' });
  const registry = createRegistry();
  const transport = createLocalTransport({
    messages_max: LIMITS.mailbox_messages_max,
    bytes_max: LIMITS.mailbox_bytes_max,
  });
  const directory = createLocalDirectory<ModelRecord>();
  const shared: Shared = { clock, log, transport, directory };
  const files = modelFiles(options, await countGpus());
  const stopping: { untilUs?: number } = {};
  const leftMs = () =>
    stopping.untilUs === undefined ? STOP_DEADLINE_MS : Math.max(0, (stopping.untilUs - clock.nowUs()) / 1000);

  // Parts stop in reverse order: HTTP first, metrics last, as Triton's do.
  const gateway = createGateway({
    ...shared,
    id: newProcessId('gw'),
    limits: LIMITS,
    strictReadiness: options.strictReadiness ?? true,
  });
  const metrics = await lifecycle.add(
    'metrics',
    async () => newMetricsServer(options.metrics, { gateway, registry, log }),
    async (started) => started?.close(),
  );
  const worker = await lifecycle.add(
    'worker',
    () => startWorker(shared, options, files),
    (started) => started.stop(leftMs()),
  );
  await lifecycle.add(
    'gateway',
    async () => gateway,
    (started) => started.close(),
  );
  const coordinator = await lifecycle.add(
    'coordinator',
    async () => newCoordinator(shared, registry, options, files),
    (started) => started.stop(leftMs()),
  );
  const loadFailures = await loadAtStart(coordinator, options.exitOnError ?? true);
  const http = await lifecycle.add(
    'http',
    async () => newHttpServer(options, { gateway, clock, log }),
    async (started) => started?.close(leftMs()),
  );
  const urls = {
    ...(http === undefined ? {} : { http: (await http.listen()).url }),
    ...(metrics === undefined ? {} : { metrics: (await metrics.listen()).url }),
  };

  const stop: Server['stop'] = ({ deadlineMs } = {}) => {
    stopping.untilUs ??= clock.nowUs() + (deadlineMs ?? STOP_DEADLINE_MS) * 1000;
    // Not ready and no new work on any door, then the doors close from the outside in.
    gateway.drain();
    return lifecycle.stop();
  };
  return { urls, loadFailures, stop, ...callsTo({ clock, directory, gateway, coordinator, worker }) };
}

interface Started {
  readonly clock: ReturnType<typeof systemClock>;
  readonly directory: Directory<ModelRecord>;
  readonly gateway: Gateway;
  readonly coordinator: Coordinator;
  readonly worker: Worker;
}

/** The server's calls, each handed to the part that knows. */
function callsTo(parts: Started): Omit<Server, 'urls' | 'loadFailures' | 'stop'> {
  const { clock, directory, gateway, coordinator, worker } = parts;
  return {
    async infer(input, { signal } = {}) {
      const request = inferRequest(input);
      if (signal !== undefined) {
        if (!(signal instanceof AbortSignal)) {
          throw new NereidError('INVALID_ARG', 'signal must be an AbortSignal', { field: 'signal' });
        }
        // One signal may be given to any number of requests; each takes its listener off again.
        setMaxListeners(0, signal);
      }
      const outcome = await gateway.infer(request, signal);
      if (outcome.ok) return inferResult(outcome.response);
      const { code, message, ...detail } = outcome.error;
      throw new NereidError(code, message, detail);
    },
    loadModel: (name) => coordinator.loadModel(name),
    unloadModel: (name) => coordinator.unloadModel(name),
    models: () => directory.records().toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    live: () => gateway.live(),
    ready: () => gateway.ready(),
    counts: () => ({
      waiting: gateway.waiting,
      queued: coordinator.counts.queued,
      running: coordinator.counts.running,
      batches: worker.counters().batches,
      timers: clock.liveTimers,
    }),
  };
}

interface Shared {
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
}

async function startWorker(shared: Shared, options: ServerOptions, files: ModelFiles): Promise<Worker> {
  const worker = createWorker({
    ...shared,
    id: newProcessId('wk'),
    findModel: files.findModel,
    hashModel: files.hashModel,
    backendSettings: options.backendConfig ?? {},
    loadsMax: options.modelLoadThreads ?? DEFAULTS.model_load_threads,
    limits: LIMITS,
  });
  await worker.start();
  return worker;
}

function newCoordinator(shared: Shared, registry: Registry, options: ServerOptions, files: ModelFiles): Coordinator {
  return createCoordinator({
    ...shared,
    id: newProcessId('co'),
    registry,
    reader: files.reader,
    options: {
      controlMode: options.modelControlMode ?? 'none',
      ...(options.loadModels === undefined ? {} : { loadModels: options.loadModels }),
      ...(options.modelLoadThreads === undefined ? {} : { modelLoadThreads: options.modelLoadThreads }),
    },
  });
}

/** Loads what the control mode asks for. Throws the first failure where `exitOnError` is set. */
async function loadAtStart(coordinator: Coordinator, exitOnError: boolean): Promise<readonly LoadFailure[]> {
  const failures = await coordinator.start();
  const [first] = failures;
  if (first === undefined || !exitOnError) return failures;
  const others = failures.length === 1 ? '' : ` (and ${failures.length - 1} more)`;
  const text = `failed to load model '${first.model}'${others}: ${first.error.message.trim()}`;
  throw new NereidError(first.error.code, text, { reason: LOAD_FAILED });
}

interface Edges {
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly log: Log;
}

function newHttpServer(options: ServerOptions, edges: Edges): HttpServer | undefined {
  if (options.http === undefined) return undefined;
  return createHttpServer({
    ...edges,
    serverId: options.id ?? DEFAULTS.server_id,
    version: packageVersion(import.meta.url),
    address: options.http.address ?? DEFAULTS.address,
    port: options.http.port,
    maxInputBytes: options.http.maxInputBytes ?? LIMITS.body_bytes_max,
  });
}

function newMetricsServer(
  listener: ListenerOptions | undefined,
  { gateway, registry, log }: { readonly gateway: Gateway; readonly registry: Registry; readonly log: Log },
): MetricsServer | undefined {
  if (listener === undefined) return undefined;
  return createMetricsServer({
    registry,
    log,
    address: listener.address ?? DEFAULTS.address,
    port: listener.port,
    live: () => gateway.live(),
    ready: () => gateway.ready(),
  });
}
