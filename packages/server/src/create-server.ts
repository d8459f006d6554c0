import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ModelRecord } from '@nereid/config';
import type { Coordinator, LoadFailure } from '@nereid/coordinator';
import type { Gateway, Services } from '@nereid/gateway';
import {
  type InferInput,
  type InferResult,
  inferRequest,
  inferResult,
  NereidError,
  type VersionStatistics,
} from '@nereid/protocol';
import type { Worker } from '@nereid/worker';
import { loadModel, type ModelOverride, unloadModel } from './change-models.ts';
import { checkServerOptions } from './check-options.ts';
import { countGpus } from './count-gpus.ts';
import { addDoorState } from './door-state.ts';
import { results, thrownError } from './infer-results.ts';
import { addModelFiles } from './model-files.ts';
import { type ProcessParts, startProcess } from './process-parts.ts';
import { openUrls, type ProcessUrls } from './process-urls.ts';
import { retire, type StopOptions } from './retire.ts';
import {
  addJournalMetrics,
  addMemoryMetrics,
  addRoleMetrics,
  addShadowMetrics,
  coordinatorFigures,
  gatewayFigures,
  workerFigures,
} from './role-metrics.ts';
import {
  addCoordinator,
  addGrpc,
  addHttp,
  addJobs,
  addMetrics,
  addWebhooks,
  addWorker,
  loadAtStart,
  newGateway,
} from './roles.ts';
import type { ServerOptions } from './server-options.ts';
import { addTraceSettings, newServices } from './services.ts';

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
  /**
   * Only with `modelControlMode: 'explicit'`. Resolves when ready; throws why not. With `config` and `files` these are
   * what is loaded, in place of the repository's: code among them is taken, since the caller runs here anyway.
   */
  loadModel(name: string, override?: ModelOverride): Promise<ModelRecord>;
  /**
   * Only with `explicit`. Resolves when gone; also for a model that is not loaded. Throws UNAVAILABLE where
   * requests keep it for longer than LIMITS.unload_wait_ms: it goes once they have ended.
   */
  unloadModel(name: string): Promise<void>;
  /** Every model known, by name. */
  models(): readonly ModelRecord[];
  /**
   * What has been counted of a model's READY versions since it was loaded, of all models without a name: models by
   * name, versions ascending. Throws INVALID_ARG for what is not available, UNAVAILABLE where a coordinator that owns
   * a model does not answer.
   */
  statistics(name?: string, version?: string): Promise<readonly VersionStatistics[]>;
  /** The models that did not load at start, with why. */
  readonly loadFailures: readonly LoadFailure[];
  live(): boolean;
  ready(): boolean;
  /**
   * Refuses new requests, finishes those accepted (30 s at most, or `deadlineMs`), frees everything.
   * A run in native code that is still going then is waited for: it cannot be cut short. Idempotent.
   */
  stop(options?: StopOptions): Promise<void>;
  /** What is going on; all zero once idle. For leak tests and for the curious. */
  counts(): ServerCounts;
}

export interface ServerCounts {
  /** Requests without an outcome. */
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
  const { shared, connector, registry, lifecycle } = parts;
  const gpus = await countGpus(options.cudaVisibleDevices);
  // In a cluster other machines may hold the models: each worker goes by its own GPUs.
  const reader = await addModelFiles(parts, options, {
    gpus: connector === undefined ? gpus : undefined,
    shared: true,
    runCode: true,
  });

  // Parts stop in reverse order: HTTP first, then gRPC, metrics after the roles, as Triton does.
  const traces = await addTraceSettings(parts, options);
  const jobs = await addJobs(parts, options);
  const unrecorded = jobs.journal === undefined ? (jobs.hint ?? 'this server has no Redis') : undefined;
  const gateway = newGateway(shared, options, traces, unrecorded);
  await addWebhooks(parts, options, jobs);
  const metrics = await addMetrics(parts, options, gateway);
  const worker = await addWorker(parts, options, reader, gpus, jobs.journal);
  addJournalMetrics(registry, jobs.journal);
  addMemoryMetrics(registry, worker);
  await lifecycle.add(
    'gateway',
    () => gateway.start(),
    () => gateway.close(),
  );
  const coordinator = await addCoordinator(parts, options, reader, jobs);
  const doors = await addDoorState(parts, options);
  addShadowMetrics(registry, gateway);
  addRoleMetrics(registry, [
    gatewayFigures(gateway, jobs, doors),
    coordinatorFigures(coordinator),
    workerFigures(worker),
  ]);
  const loadFailures = await loadAtStart(coordinator, options.exitOnError ?? true);
  const services = newServices(shared, options, gateway, traces, coordinator.tellRepository);
  const grpc = await addGrpc(parts, options, gateway, services, doors);
  const http = await addHttp(parts, options, gateway, services, jobs, doors);
  const urls = await openUrls({ http, grpc, metrics, redis: connector?.url ?? jobs.queues?.url });

  const stop: Server['stop'] = async (limits) => {
    // Without a pause nothing is accepted from this call on.
    if ((limits?.pauseMs ?? 0) > 0) await retire(gateway, shared.clock, limits);
    // Not ready and no new work on any door, then the doors close from the outside in.
    gateway.drain();
    grpc?.drain();
    // What was accepted in this turn is on its way to the coordinator, which refuses all once it stops.
    await nextTurn();
    return parts.stop(limits);
  };
  return { urls, loadFailures, stop, ...callsTo({ parts, gateway, coordinator, worker, services }) };
}

interface Started {
  readonly parts: ProcessParts;
  readonly gateway: Gateway;
  readonly coordinator: Coordinator;
  readonly worker: Worker;
  readonly services: Services;
}

/** The server's calls, each handed to the part that knows. */
function callsTo({
  parts,
  gateway,
  coordinator,
  worker,
  services,
}: Started): Omit<Server, 'urls' | 'loadFailures' | 'stop'> {
  return {
    async infer(input, { signal } = {}) {
      const outcome = await gateway.infer(inferRequest(input), checkedSignal(signal));
      if (outcome.ok) return inferResult(outcome.response);
      throw thrownError(outcome.error);
    },
    inferStream: (input, { signal } = {}) => results(gateway.inferStream(inferRequest(input), checkedSignal(signal))),
    loadModel: (name, override) => loadModel(services.repository, parts, name, override),
    unloadModel: (name) => unloadModel(services.repository, parts, name),
    models: parts.models,
    async statistics(name = '', version = '') {
      const answer = await gateway.statistics.of(checkedText(name, 'name'), checkedText(version, 'version'));
      if (answer.ok) return answer.value;
      throw thrownError(answer.error);
    },
    live: () => gateway.live(),
    ready: () => gateway.ready(),
    counts: () => ({
      waiting: gateway.waiting,
      queued: coordinator.counts.queued,
      running: coordinator.counts.running,
      batches: worker.counters().batches,
      timers: parts.shared.clock.liveTimers,
    }),
  };
}

function checkedText(value: unknown, field: string): string {
  if (typeof value === 'string') return value;
  throw new NereidError('INVALID_ARG', `${field} must be a string, got ${typeof value}`, { field });
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
