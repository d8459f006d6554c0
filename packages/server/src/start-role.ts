import type { ModelRecord } from '@nereid/config';
import type { LoadFailure } from '@nereid/coordinator';
import { NereidError } from '@nereid/protocol';
import { checkServerOptions } from './check-options.ts';
import { countGpus } from './count-gpus.ts';
import type { ProcessUrls, ServerCounts } from './create-server.ts';
import { modelFiles, ownModelFiles } from './model-files.ts';
import { type OpenedJobs, openClusterJobs } from './open-jobs.ts';
import { type ProcessParts, startProcess } from './process-parts.ts';
import { addRoleMetrics, coordinatorFigures, gatewayFigures, workerFigures } from './role-metrics.ts';
import {
  type Health,
  jobsParts,
  loadAtStart,
  newCoordinator,
  newGateway,
  newHttpServer,
  newMetricsServer,
  startWorker,
} from './roles.ts';
import type { ServerOptions } from './server-options.ts';

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
  /** Finishes what was accepted (30 s at most, or `deadlineMs`), frees everything. Idempotent. */
  stop(options?: { readonly deadlineMs?: number }): Promise<void>;
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
  const { shared, lifecycle, leftMs } = parts;
  const gateway = newGateway(shared, options);
  const metrics = await addMetrics(options, parts, gateway);
  const jobs = await addJobs(options, parts);
  addRoleMetrics(parts.registry, [gatewayFigures(gateway, jobs)]);
  await lifecycle.add(
    'gateway',
    () => gateway.start(),
    () => gateway.close(leftMs()),
  );
  const http = await lifecycle.add(
    'http',
    async () => newHttpServer(options, gateway, shared, jobs),
    async (started) => started?.close(leftMs()),
  );
  const urls = { ...(await metrics()), ...(http === undefined ? {} : { http: (await http.listen()).url }) };
  const stop: RoleProcess['stop'] = (limits) => {
    gateway.drain();
    return parts.stop(limits);
  };
  return { urls, loadFailures: [], stop, ...common(parts), live: gateway.live, ready: gateway.ready };
}

async function startCoordinator(options: ServerOptions, parts: ProcessParts): Promise<RoleProcess> {
  const { shared, registry, lifecycle, leftMs } = parts;
  const health = startHealth();
  const metrics = await addMetrics(options, parts, health);
  // Each worker goes by the GPUs of its own machine.
  const files = modelFiles(options, undefined);
  const jobs = await addJobs(options, parts);
  const coordinator = await lifecycle.add(
    'coordinator',
    async () => newCoordinator(shared, registry, options, files, jobs),
    (started) => started.stop(leftMs()),
  );
  addRoleMetrics(registry, [coordinatorFigures(coordinator)]);
  const urls = await metrics();
  const loadFailures = await loadAtStart(coordinator, options.exitOnError ?? true);
  health.started = true;
  return { urls, loadFailures, stop: parts.stop, ...common(parts), ...health };
}

async function startWorkerRole(options: ServerOptions, parts: ProcessParts): Promise<RoleProcess> {
  const { shared, lifecycle, leftMs } = parts;
  const health = startHealth();
  const metrics = await addMetrics(options, parts, health);
  const files = ownModelFiles(options);
  const gpus = await countGpus();
  const worker = await lifecycle.add(
    'worker',
    () => startWorker(shared, options, files, gpus),
    (started) => started.stop(leftMs()),
  );
  addRoleMetrics(parts.registry, [workerFigures(worker)]);
  health.started = true;
  const counts = () => ({ batches: worker.counters().batches });
  return { urls: await metrics(), loadFailures: [], stop: parts.stop, ...common(parts), counts, ...health };
}

/** Ready once started. */
function startHealth(): Health & { started: boolean } {
  const health = { started: false, live: () => true, ready: () => health.started };
  return health;
}

/** Adds the metrics listener, which stops last; the returned call lets it listen. */
async function addMetrics(options: ServerOptions, parts: ProcessParts, health: Health) {
  const { lifecycle, registry, shared, connector } = parts;
  const metrics = await lifecycle.add(
    'metrics',
    async () => newMetricsServer(options.metrics, registry, health, shared.log),
    async (started) => started?.close(),
  );
  return async (): Promise<ProcessUrls> => ({
    ...(metrics === undefined ? {} : { metrics: (await metrics.listen()).url }),
    ...(connector === undefined ? {} : { redis: connector.url }),
  });
}

function addJobs(options: ServerOptions, { lifecycle, connector, shared }: ProcessParts): Promise<OpenedJobs> {
  return lifecycle.add(
    'jobs',
    async () => openClusterJobs(connector, jobsParts(options, shared)),
    (opened) => opened.close(),
  );
}

function common({ directory }: ProcessParts): Pick<RoleProcess, 'models' | 'counts'> {
  return {
    models: () => directory.records().toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    counts: () => ({ batches: 0 }),
  };
}
