/** Each role as it is started in a process, alone or with the others; the process stops it. */

import type { ResponseStore } from '@nereid/caller';
import {
  DEFAULTS,
  journalConfig,
  LIMITS,
  LOAD_FAILED,
  type ModelRecord,
  REPOSITORY_POLL_SECS,
  readHostPolicies,
} from '@nereid/config';
import { type Coordinator, createCoordinator, type LoadFailure } from '@nereid/coordinator';
import {
  createBulk,
  createGateway,
  createGrpcServer,
  createHttpServer,
  createJobs,
  createJournal,
  createMetricsServer,
  createWebhooks,
  type Gateway,
  type GrpcTransport,
  type HttpServer,
  type MetricsServer,
  openBullBoard,
  type Services,
  type TraceSettings,
  type WebhookOptions,
  type Webhooks,
  webhookRules,
} from '@nereid/gateway';
import { NereidError } from '@nereid/protocol';
import type { ModelFiles, ModelReader } from '@nereid/repository';
import { type Clock, type Log, newProcessId, packageVersion } from '@nereid/runtime';
import {
  createJournalStore,
  createRedisResources,
  createRedisTotals,
  type Directory,
  type JournalStore,
  type JournalWriter,
  type RedisConnector,
  type Timing,
  type Transport,
  timing,
  type Uploads,
} from '@nereid/transport';
import { createWorker, hostLaunches, type RateLimitOptions, tryCommand, type Worker } from '@nereid/worker';
import type { DoorState } from './door-state.ts';
import { addEventLoopDelay } from './event-loop-delay.ts';
import { globMatcher } from './glob.ts';
import { grpcSettings } from './grpc-settings.ts';
import { httpSettings } from './http-settings.ts';
import { type OpenedJobs, openClusterJobs, openPrivateJobs } from './open-jobs.ts';
import type { ProcessParts } from './process-parts.ts';
import type { ServerOptions } from './server-options.ts';

/** What the roles of a process share. */
export interface Shared {
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  /** What clients send in place of models' files. */
  readonly uploads: Uploads;
  /** Where answers of models that allow it are kept; absent where none are. */
  readonly responses?: ResponseStore;
  /** Absent where all roles are in this process and no message is ever lost. */
  readonly timing?: Timing;
}

/** Jobs in the cluster's Redis, or in a private one where the process is by itself. */
export function addJobs({ lifecycle, connector, shared }: ProcessParts, options: ServerOptions): Promise<OpenedJobs> {
  const { clock, log } = shared;
  const times = shared.timing ?? timing(options.timeScale ?? DEFAULTS.time_scale);
  const fsync = options.jobsFsync ?? DEFAULTS.jobs_fsync;
  const scripts = options.jobScripts !== false;
  const redisPrefix = options.redis?.prefix ?? DEFAULTS.redis_prefix;
  const journal = journalConfig(options.journal);
  const parts = { prefix: options.jobPrefix, redisPrefix, fsync, scripts, journal, clock, log, timing: times };
  return lifecycle.add(
    'jobs',
    () => (connector === undefined ? openPrivateJobs(options.privateRedis, parts) : openClusterJobs(connector, parts)),
    (opened) => opened.close(),
  );
}

/** The journal of a worker by itself; others have it with their jobs. */
export async function addJournal(
  { lifecycle, connector, shared }: ProcessParts,
  options: ServerOptions,
): Promise<JournalStore | undefined> {
  if (connector === undefined) return undefined;
  const { clock, log } = shared;
  const prefix = options.redis?.prefix ?? DEFAULTS.redis_prefix;
  const limits = journalConfig(options.journal);
  return lifecycle.add(
    'journal',
    async () => createJournalStore({ connector, prefix, clock, log, limits }),
    async (store) => store.close(),
  );
}

/** `unrecorded`: why it has no journal; undefined where it has one. */
export function newGateway(
  shared: Shared,
  options: ServerOptions,
  traces: TraceSettings,
  unrecorded?: string | undefined,
): Gateway {
  return createGateway({
    ...shared,
    traces,
    unrecorded,
    id: newProcessId('gw'),
    limits: LIMITS,
    strictReadiness: options.strictReadiness ?? true,
  });
}

export function addWorker(
  { lifecycle, leftMs, shared, connector }: ProcessParts,
  options: ServerOptions,
  files: Pick<ModelFiles, 'open'>,
  gpus: number,
  journal: JournalWriter | undefined,
): Promise<Worker> {
  const recorded = journalConfig(options.journal);
  if (recorded.share > 0 && journal === undefined) shared.log.warn('nothing is recorded: the journal needs a Redis');
  const start = async () => {
    const policies = readHostPolicies(options.hostPolicy ?? []) ?? new Map();
    const worker = createWorker({
      ...shared,
      launch: await hostLaunches(policies, tryCommand, shared.log),
      id: newProcessId('wk'),
      openModel: files.open,
      gpus,
      labels: options.workerLabels ?? {},
      memoryBudget: options.memoryBudget ?? {},
      backendSettings: options.backendConfig ?? {},
      loadsMax: options.modelLoadThreads ?? DEFAULTS.model_load_threads,
      loadRetries: options.modelLoadRetries ?? 0,
      limits: LIMITS,
      rateLimit: rateLimitOf(options, shared, connector),
      journal: journal === undefined ? undefined : { journal, config: recorded },
      ...(options.workerModels === undefined ? {} : { holds: globMatcher(options.workerModels) }),
    });
    await worker.start();
    return worker;
  };
  return lifecycle.add('worker', start, (worker) => worker.stop(leftMs()));
}

function rateLimitOf(
  { rateLimit, rateLimitResources = [], redis }: ServerOptions,
  { clock, log, timing: times }: Shared,
  connector: RedisConnector | undefined,
): RateLimitOptions | undefined {
  if (rateLimit !== 'execution_count') return undefined;
  if (connector === undefined || times === undefined) return { resources: rateLimitResources };
  const prefix = redis?.prefix ?? DEFAULTS.redis_prefix;
  return {
    resources: rateLimitResources,
    shared: createRedisResources({ connector, prefix, clock, log, timing: times }),
  };
}

/** It loads nothing yet: `loadAtStart` does. */
export function addCoordinator(
  { lifecycle, leftMs, shared, registry, connector }: ProcessParts,
  options: ServerOptions,
  reader: ModelReader,
  jobs: OpenedJobs,
): Promise<Coordinator> {
  const prefix = options.redis?.prefix ?? DEFAULTS.redis_prefix;
  const start = async () =>
    createCoordinator({
      ...shared,
      id: newProcessId('co'),
      registry,
      reader,
      jobs: jobs.queues,
      bulk: jobs.bulk,
      totals: connector === undefined ? undefined : createRedisTotals({ connector, prefix, clock: shared.clock }),
      options: {
        controlMode: options.modelControlMode ?? 'none',
        repositoryPollSecs: options.repositoryPollSecs ?? REPOSITORY_POLL_SECS,
        repositories: options.modelRepositories,
        namespacing: options.modelNamespacing ?? false,
        rateLimit: options.rateLimit === 'execution_count',
        responseCache: options.cache !== undefined,
        placement: options.placement ?? 'all',
        ...(options.loadModels === undefined ? {} : { loadModels: options.loadModels }),
        ...(options.modelLoadThreads === undefined ? {} : { modelLoadThreads: options.modelLoadThreads }),
      },
    });
  return lifecycle.add('coordinator', start, (coordinator) => coordinator.stop(leftMs()));
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

/** The HTTP listener, not listening yet; undefined where none is asked for. */
export async function addHttp(
  { lifecycle, leftMs, shared }: ProcessParts,
  options: ServerOptions,
  gateway: Gateway,
  services: Services,
  { queues, bulk: store, journal: recordings }: OpenedJobs,
  doors: DoorState,
): Promise<HttpServer | undefined> {
  const { http } = options;
  if (http === undefined) return undefined;
  const { clock, log, directory } = shared;
  const webhooks = webhookRules(webhooksOf(options));
  const jobs = queues === undefined ? undefined : createJobs({ queues, directory, clock, gateway, webhooks });
  const payloads = queues?.payloads;
  const bulk =
    jobs === undefined || payloads === undefined || store === undefined
      ? undefined
      : createBulk({ store, directory, jobs, payloads, clock });
  const limits = journalConfig(options.journal);
  const journal =
    recordings === undefined ? undefined : createJournal({ store: recordings, directory, gateway, clock, log, limits });
  const board =
    queues === undefined || http.bullBoard !== true
      ? undefined
      : await lifecycle.add(
          'bull-board',
          () => openBullBoard({ queues, directory }),
          (opened) => opened.close(),
        );
  const start = async () =>
    createHttpServer({
      bullBoard: board,
      gateway,
      services,
      clock,
      log,
      jobs,
      bulk,
      journal,
      serverId: options.id ?? DEFAULTS.server_id,
      version: packageVersion(import.meta.url),
      address: http.address ?? DEFAULTS.address,
      port: http.port,
      maxInputBytes: http.maxInputBytes ?? LIMITS.body_bytes_max,
      ...httpSettings(http),
      ...doors,
    });
  return lifecycle.add('http', start, (server) => server.close(leftMs()));
}

function webhooksOf({ webhooks }: ServerOptions): WebhookOptions {
  return { secrets: webhooks?.secrets ?? [], allowPrivate: webhooks?.allowPrivate ?? false };
}

/** Delivers webhooks of all models of the cluster; undefined where it has nothing to sign them with, or no Redis. */
export async function addWebhooks(
  { lifecycle, leftMs, shared }: ProcessParts,
  options: ServerOptions,
  { queues }: OpenedJobs,
): Promise<Webhooks | undefined> {
  const webhooks = webhooksOf(options);
  if (queues === undefined || webhooks.secrets.length === 0) return undefined;
  const { clock, log, directory } = shared;
  const start = async () => createWebhooks({ queues, directory, clock, log, options: webhooks });
  return lifecycle.add('webhooks', start, (opened) => opened.close(leftMs()));
}

/** The gRPC listener, not listening yet; undefined where none is asked for. */
export async function addGrpc(
  { lifecycle, leftMs, shared }: ProcessParts,
  options: ServerOptions,
  gateway: Gateway,
  services: Services,
  doors: DoorState,
): Promise<GrpcTransport | undefined> {
  const { grpc } = options;
  if (grpc === undefined) return undefined;
  const { clock, log } = shared;
  const start = async () =>
    createGrpcServer({
      gateway,
      services,
      clock,
      log,
      serverId: options.id ?? DEFAULTS.server_id,
      version: packageVersion(import.meta.url),
      address: grpc.address ?? DEFAULTS.address,
      port: grpc.port,
      rules: grpc.connections,
      compressionLevel: grpc.compressionLevel,
      ...grpcSettings(grpc),
      ...doors,
    });
  return lifecycle.add('grpc', start, (server) => server.close(leftMs()));
}

/** What a metrics port tells of its process besides the metrics. */
export interface Health {
  live(): boolean;
  ready(): boolean;
}

/** The metrics listener, not listening yet; undefined where none is asked for. */
export async function addMetrics(
  { lifecycle, shared, registry }: ProcessParts,
  { metrics }: ServerOptions,
  health: Health,
): Promise<MetricsServer | undefined> {
  if (metrics === undefined) return undefined;
  await lifecycle.add(
    'event loop delay',
    async () => addEventLoopDelay(registry),
    async (delay) => delay.close(),
  );
  const start = async () =>
    createMetricsServer({
      registry,
      log: shared.log,
      address: metrics.address ?? DEFAULTS.address,
      port: metrics.port,
      live: () => health.live(),
      ready: () => health.ready(),
    });
  return lifecycle.add('metrics', start, (server) => server.close());
}
