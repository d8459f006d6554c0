import {
  backendSettings,
  memoryBudget,
  metricsAddress,
  type Options,
  readCacheConfig,
  readJournalConfig,
  readTraceConfig,
  resourceLimits,
  workerLabels,
} from '@nereid/config';
import type { Log, LogControl } from '@nereid/runtime';
import type { GrpcOptions, HttpOptions, ServerOptions } from '@nereid/server';

/** For `--blob-dir`: an empty variable counts as not set. */
const NO_FOLDER = 'none';

/** What is not asked for is left out. */
function httpOptions(options: Options): HttpOptions {
  const { httpTlsCert: cert, httpTlsKey: key, httpTlsClientCa: clientCa } = options;
  const pattern = options.httpHeaderForwardPattern;
  return {
    address: options.httpAddress,
    port: options.httpPort,
    maxInputBytes: options.httpMaxInputSize,
    ...(pattern === '' ? {} : { headerForwardPattern: pattern }),
    ...(options.httpRestrictedApi.length === 0 ? {} : { restrictedApi: options.httpRestrictedApi }),
    ...(options.adminKey === '' ? {} : { adminKey: options.adminKey }),
    bullBoard: options.bullBoard,
    ...(cert === '' ? {} : { tls: { cert, key, ...(clientCa === '' ? {} : { clientCa }) } }),
    ...(options.httpCorsOrigin.length === 0 ? {} : { corsOrigins: options.httpCorsOrigin }),
  };
}

/** What is not asked for is left out. */
function grpcOptions(options: Options): GrpcOptions {
  const { grpcServerCert: cert, grpcServerKey: key, grpcRootCert: clientCa, grpcUseSslMutual: mutual } = options;
  const pattern = options.grpcHeaderForwardPattern;
  return {
    address: options.grpcAddress,
    port: options.grpcPort,
    ...(options.grpcUseSsl || mutual ? { tls: { cert, key, ...(mutual ? { clientCa } : {}) } } : {}),
    ...(pattern === '' ? {} : { headerForwardPattern: pattern }),
    ...(options.grpcRestrictedProtocol.length === 0 ? {} : { restrictedProtocol: options.grpcRestrictedProtocol }),
    compressionLevel: options.grpcInferResponseCompressionLevel,
    connections: {
      keepalive_time_ms: options.grpcKeepaliveTime,
      keepalive_timeout_ms: options.grpcKeepaliveTimeout,
      keepalivePermitWithoutCalls: options.grpcKeepalivePermitWithoutCalls,
      pings_without_data_max: options.grpcHttp2MaxPingsWithoutData,
      ping_interval_min_ms: options.grpcHttp2MinRecvPingIntervalWithoutData,
      ping_strikes_max: options.grpcHttp2MaxPingStrikes,
      age_max_ms: options.grpcMaxConnectionAge,
      age_grace_ms: options.grpcMaxConnectionAgeGrace,
    },
  };
}

/** The flags as `createServer` and `startRole` take them; of the environment what other programs name. */
export function serverOptions(
  options: Options,
  { log, control }: { readonly log: Log; readonly control: LogControl },
  env: Readonly<Record<string, string | undefined>>,
): ServerOptions {
  const redis = {
    url: options.redisUrl,
    prefix: options.redisPrefix,
    allowEvicting: options.allowEvictingRedis,
    blobDirectory: options.blobDir === NO_FOLDER ? '' : options.blobDir,
  };
  const searchPath = env.PATH ?? '';
  // Checked with the other options.
  const traces = readTraceConfig(options, env);
  const cache = readCacheConfig(options, env);
  const journal = readJournalConfig(options);
  return {
    id: options.id,
    modelRepositories: options.modelRepository,
    environment: env,
    modelControlMode: options.modelControlMode,
    repositoryPollSecs: options.repositoryPollSecs,
    modelNamespacing: options.modelNamespacing,
    loadModels: options.loadModel,
    // The command itself ends where a model failed, after it has shown the table of all, as Triton does.
    exitOnError: false,
    strictReadiness: options.strictReadiness,
    autoCompleteConfig: !options.disableAutoCompleteConfig,
    modelConfigName: options.modelConfigName,
    modelLoadThreads: options.modelLoadThreadCount,
    modelLoadRetries: options.modelLoadRetryCount,
    rateLimit: options.rateLimit,
    rateLimitResources: resourceLimits(options.rateLimitResource),
    ...(cache.ok && cache.value !== undefined ? { cache: cache.value } : {}),
    ...(journal.ok ? { journal: journal.value } : {}),
    backendConfig: backendSettings(options.backendConfig),
    ...(options.redisUrl === '' ? { privateRedis: { dataDirectory: options.dataDir, searchPath } } : { redis }),
    jobPrefix: options.jobPrefix,
    jobsFsync: options.jobsFsync,
    jobScripts: env.NEREID_JOBS_SCRIPTS !== 'off',
    lane: options.lane,
    timeScale: options.timeScale,
    ...(options.workerModels.length === 0 ? {} : { workerModels: options.workerModels }),
    placement: options.placement,
    ...(options.memoryBudget.length === 0 ? {} : { memoryBudget: memoryBudget(options.memoryBudget) }),
    ...(options.workerLabels.length === 0 ? {} : { workerLabels: workerLabels(options.workerLabels) }),
    ...(env.CUDA_VISIBLE_DEVICES === undefined ? {} : { cudaVisibleDevices: env.CUDA_VISIBLE_DEVICES }),
    ...(options.hostPolicy.length === 0 ? {} : { hostPolicy: options.hostPolicy }),
    maxBytesInFlight: options.maxBytesInFlight,
    allowClientShm: options.allowClientShm,
    allowCodeUpload: options.allowCodeUpload,
    webhooks: { secrets: options.webhookSecret, allowPrivate: options.webhookAllowPrivate },
    ...(options.allowHttp ? { http: httpOptions(options) } : {}),
    ...(options.allowGrpc ? { grpc: grpcOptions(options) } : {}),
    ...(options.allowMetrics ? { metrics: { address: metricsAddress(options), port: options.metricsPort } } : {}),
    log,
    logControl: control,
    ...(traces.ok ? { traces: traces.value } : {}),
  };
}
