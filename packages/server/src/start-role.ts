import type { ModelRecord } from '@nereid/config';
import type { LoadFailure } from '@nereid/coordinator';
import { NereidError } from '@nereid/protocol';
import type { Worker } from '@nereid/worker';
import { checkServerOptions } from './check-options.ts';
import { countGpus } from './count-gpus.ts';
import type { ServerCounts } from './create-server.ts';
import { addDoorState } from './door-state.ts';
import { joinCluster } from './join-cluster.ts';
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
  addJournal,
  addMetrics,
  addWebhooks,
  addWorker,
  type Health,
  loadAtStart,
  newGateway,
} from './roles.ts';
import type { ServerOptions } from './server-options.ts';
import { addTraceSettings, newServices } from './services.ts';

export type RoleName = 'gateway' | 'coordinator' | 'worker';

/** A gateway reads no repository: it knows models by what coordinators publish. */
export type GatewayOptions = Omit<ServerOptions, 'modelRepositories'>;

/** One role in a process of its own. */
export interface RoleProcess extends Health {
  readonly urls: ProcessUrls;
  /** Models known to the cluster, by name. */
  models(): readonly ModelRecord[];
  /** Of a coordinator: the models that it could not load at start, with why. */
  readonly loadFailures: readonly LoadFailure[];
  counts(): Pick<ServerCounts, 'batches'>;
  /** Of a worker: what it has of models. */
  readonly holdings?: Worker['holdings'];
  /** Finishes what was accepted (30 s at most, or `deadlineMs`), frees everything. Idempotent. */
  stop(options?: StopOptions): Promise<void>;
}

/**
 * Starts one role of a cluster; `options.redis` says which. Throws a NereidError where the Redis or
 * a port cannot be used; what had started is stopped before.
 */
export async function startRole(role: 'gateway', options: GatewayOptions): Promise<RoleProcess>;
export async function startRole(role: RoleName, options: ServerOptions): Promise<RoleProcess>;
export async function startRole(role: RoleName, given: GatewayOptions): Promise<RoleProcess> {
  const options = role === 'gateway' ? { modelRepositories: [], ...given } : (given as ServerOptions);
  checkServerOptions(options);
  if (options.redis === undefined) {
    throw new NereidError('INVALID_ARG', `a ${role} by itself needs the Redis of its cluster`, { field: 'redis' });
  }
  const start = { gateway: startGateway, coordinator: startCoordinator, worker: startWorkerRole }[role];
  return startProcess(role, { ...options, lane: 'redis' }, (parts) => start(options, parts));
}

async function startGateway(options: ServerOptions, parts: ProcessParts): Promise<RoleProcess> {
  const { shared, connector, lifecycle, leftMs, models } = parts;
  const traces = await addTraceSettings(parts, options);
  const gateway = newGateway(shared, options, traces);
  const metrics = await addMetrics(parts, options, gateway);
  const jobs = await addJobs(parts, options);
  await addWebhooks(parts, options, jobs);
  const doors = await addDoorState(parts, options);
  addShadowMetrics(parts.registry, gateway);
  addRoleMetrics(parts.registry, [gatewayFigures(gateway, jobs, doors)]);
  await lifecycle.add(
    'gateway',
    () => gateway.start(),
    () => gateway.close(leftMs()),
  );
  const services = newServices(shared, options, gateway, traces);
  const grpc = await addGrpc(parts, options, gateway, services, doors);
  const http = await addHttp(parts, options, gateway, services, jobs, doors);
  const urls = await openUrls({ http, grpc, metrics, redis: connector?.url });
  const stop: RoleProcess['stop'] = async (limits) => {
    // Without a pause nothing is accepted from this call on.
    if ((limits?.pauseMs ?? 0) > 0) await retire(gateway, shared.clock, limits);
    gateway.drain();
    grpc?.drain();
    return parts.stop(limits);
  };
  return { urls, loadFailures: [], stop, models, counts: noBatches, live: gateway.live, ready: gateway.ready };
}

async function startCoordinator(options: ServerOptions, parts: ProcessParts): Promise<RoleProcess> {
  const { connector, registry, models, stop } = parts;
  const health = startHealth();
  const metrics = await addMetrics(parts, options, health);
  // Each worker goes by the GPUs of its own machine.
  const reader = await addModelFiles(parts, options, { gpus: undefined, shared: false, runCode: true });
  const jobs = await addJobs(parts, options);
  const coordinator = await addCoordinator(parts, options, reader, jobs);
  addRoleMetrics(registry, [coordinatorFigures(coordinator)]);
  const urls = await openUrls({ metrics, redis: connector?.url });
  const loadFailures = await loadAtStart(coordinator, options.exitOnError ?? true);
  health.started = true;
  return { urls, loadFailures, stop, models, counts: noBatches, ...health };
}

async function startWorkerRole(options: ServerOptions, parts: ProcessParts): Promise<RoleProcess> {
  const { connector, registry, models, stop } = parts;
  const health = startHealth();
  const metrics = await addMetrics(parts, options, health);
  const journal = await addJournal(parts, options);
  const gpus = await countGpus(options.cudaVisibleDevices);
  const reader = await addModelFiles(parts, options, { gpus: undefined, shared: false, runCode: false });
  const worker = await addWorker(parts, options, reader, gpus, journal);
  await joinCluster(parts.shared.directory, options);
  addJournalMetrics(registry, journal);
  addMemoryMetrics(registry, worker);
  addRoleMetrics(registry, [workerFigures(worker)]);
  health.started = true;
  const urls = await openUrls({ metrics, redis: connector?.url });
  const counts = () => ({ batches: worker.counters().batches });
  return { urls, loadFailures: [], stop, models, counts, holdings: worker.holdings, ...health };
}

/** Ready once started. */
function startHealth(): Health & { started: boolean } {
  const health = { started: false, live: () => true, ready: () => health.started };
  return health;
}

function noBatches(): Pick<ServerCounts, 'batches'> {
  return { batches: 0 };
}
