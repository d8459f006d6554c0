import { setMaxListeners } from 'node:events';
import type { ModelRecord } from '@nereid/config';
import type { Coordinator, LoadFailure } from '@nereid/coordinator';
import type { Gateway } from '@nereid/gateway';
import { NereidError } from '@nereid/protocol';
import type { systemClock } from '@nereid/runtime';
import type { Directory, RedisConnector } from '@nereid/transport';
import type { Worker } from '@nereid/worker';
import { checkServerOptions } from './check-options.ts';
import { countGpus } from './count-gpus.ts';
import { results, thrownError } from './infer-results.ts';
import { type InferInput, type InferResult, inferRequest, inferResult } from './infer-values.ts';
import { modelFiles } from './model-files.ts';
import { type OpenedJobs, openClusterJobs, openPrivateJobs } from './open-jobs.ts';
import { type ProcessParts, startProcess } from './process-parts.ts';
import { addRoleMetrics, coordinatorFigures, gatewayFigures, workerFigures } from './role-metrics.ts';
import {
  jobsParts,
  loadAtStart,
  newCoordinator,
  newGateway,
  newHttpServer,
  newMetricsServer,
  startWorker,
} from './roles.ts';
import type { ServerOptions } from './server-options.ts';

/** A running server: gateway, coordinator and worker in this process. */
export interface Server {
  readonly urls: ProcessUrls;
  /**
   * Runs one request. Throws a NereidError with the code and text that HTTP would answer.
   * An aborted signal cancels it wherever it is.
   */
  infer(input: InferInput, options?: { readonly signal?: AbortSignal }): Promise<InferResult>;
  /**
   * Runs one request of which any number of answers may come (a decoupled model); of any other model
   * one comes. It is sent at the call; who leaves the iteration early cancels it. Throws a NereidError
   * at once where the input is wrong, and from the iteration at the first answer that is an error,
   * which ends it: the model's, or UNAVAILABLE with the reason `stream_broken` where the rest is lost
   * and `stream_unread` where it came faster than it was read.
   */
  inferStream(input: InferInput, options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<InferResult>;
  /** Only with `modelControlMode: 'explicit'`. Resolves when ready; throws why not. */
  loadModel(name: string): Promise<ModelRecord>;
  /**
   * Only with `explicit`. Resolves when gone; also for a model that is not loaded. Throws UNAVAILABLE where
   * requests keep it for longer than LIMITS.unload_wait_ms: it goes once they have ended.
   */
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

/** Bound addresses and ports (`http://0.0.0.0:8000`); a listener that was not asked for is absent. */
export interface ProcessUrls {
  readonly http?: string;
  readonly metrics?: string;
  /** The Redis in use, without user and password; absent where there is none. */
  readonly redis?: string;
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
  return startProcess('serve', options, (parts) => startAll(options, parts));
}

async function startAll(options: ServerOptions, parts: ProcessParts): Promise<Server> {
  const { shared, directory, registry, lifecycle, leftMs } = parts;
  const gpus = await countGpus();
  // In a cluster other machines may hold the models: each worker goes by its own GPUs.
  const files = modelFiles(options, parts.connector === undefined ? gpus : undefined);

  // Parts stop in reverse order: HTTP first, metrics last, as Triton's do.
  const { connector } = parts;
  const gateway = newGateway(shared, options);
  const jobs = await lifecycle.add(
    'jobs',
    async () =>
      connector === undefined
        ? openPrivateJobs(options.privateRedis, jobsParts(options, shared))
        : openClusterJobs(connector, jobsParts(options, shared)),
    (opened) => opened.close(),
  );
  const metrics = await lifecycle.add(
    'metrics',
    async () => newMetricsServer(options.metrics, registry, gateway, shared.log),
    async (started) => started?.close(),
  );
  const worker = await lifecycle.add(
    'worker',
    () => startWorker(shared, options, files, gpus),
    (started) => started.stop(leftMs()),
  );
  await lifecycle.add(
    'gateway',
    () => gateway.start(),
    () => gateway.close(),
  );
  const coordinator = await lifecycle.add(
    'coordinator',
    async () => newCoordinator(shared, registry, options, files, jobs),
    (started) => started.stop(leftMs()),
  );
  addRoleMetrics(registry, [gatewayFigures(gateway, jobs), coordinatorFigures(coordinator), workerFigures(worker)]);
  const loadFailures = await loadAtStart(coordinator, options.exitOnError ?? true);
  const http = await lifecycle.add(
    'http',
    async () => newHttpServer(options, gateway, shared, jobs),
    async (started) => started?.close(leftMs()),
  );
  const urls = {
    ...(http === undefined ? {} : { http: (await http.listen()).url }),
    ...(metrics === undefined ? {} : { metrics: (await metrics.listen()).url }),
    ...redisUrl(connector, jobs),
  };

  const stop: Server['stop'] = (limits) => {
    // Not ready and no new work on any door, then the doors close from the outside in.
    gateway.drain();
    return parts.stop(limits);
  };
  const { clock } = shared;
  return { urls, loadFailures, stop, ...callsTo({ clock, directory, gateway, coordinator, worker }) };
}

function redisUrl(connector: RedisConnector | undefined, jobs: OpenedJobs): Pick<ProcessUrls, 'redis'> {
  const url = connector?.url ?? jobs.queues?.url;
  return url === undefined ? {} : { redis: url };
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
      const outcome = await gateway.infer(inferRequest(input), checkedSignal(signal));
      if (outcome.ok) return inferResult(outcome.response);
      throw thrownError(outcome.error);
    },
    inferStream: (input, { signal } = {}) => results(gateway.inferStream(inferRequest(input), checkedSignal(signal))),
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

function checkedSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  if (!(signal instanceof AbortSignal)) {
    throw new NereidError('INVALID_ARG', 'signal must be an AbortSignal', { field: 'signal' });
  }
  // One signal may be given to any number of requests; each takes its listener off again.
  setMaxListeners(0, signal);
  return signal;
}
