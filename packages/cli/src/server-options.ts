import { backendSettings, type Options, readTraceConfig } from '@nereid/config';
import type { Log, LogControl } from '@nereid/runtime';
import type { ServerOptions } from '@nereid/server';

/** Where metrics are served: where HTTP is, unless said otherwise. Roles without HTTP have its default here. */
export function metricsAddress(options: Pick<Options, 'httpAddress' | 'metricsAddress'>): string {
  return options.metricsAddress === '' ? options.httpAddress : options.metricsAddress;
}

/** For `--blob-dir`: an empty variable counts as not set. */
const NO_FOLDER = 'none';

/** The flags as `createServer` and `startRole` take them; of the environment what other programs name. */
export function serverOptions(
  options: Options,
  { log, control }: { readonly log: Log; readonly control: LogControl },
  env: Readonly<Record<string, string | undefined>>,
): ServerOptions {
  const http = { address: options.httpAddress, port: options.httpPort, maxInputBytes: options.httpMaxInputSize };
  const redis = {
    url: options.redisUrl,
    prefix: options.redisPrefix,
    allowEvicting: options.allowEvictingRedis,
    blobDirectory: options.blobDir === NO_FOLDER ? '' : options.blobDir,
  };
  const searchPath = env.PATH ?? '';
  // Checked with the other options.
  const traces = readTraceConfig(options, env);
  return {
    id: options.id,
    modelRepositories: options.modelRepository,
    modelControlMode: options.modelControlMode,
    loadModels: options.loadModel,
    // The command itself ends where a model failed, after it has shown the table of all, as Triton does.
    exitOnError: false,
    strictReadiness: options.strictReadiness,
    autoCompleteConfig: !options.disableAutoCompleteConfig,
    modelConfigName: options.modelConfigName,
    modelLoadThreads: options.modelLoadThreadCount,
    backendConfig: backendSettings(options.backendConfig),
    ...(options.redisUrl === '' ? { privateRedis: { dataDirectory: options.dataDir, searchPath } } : { redis }),
    jobPrefix: options.jobPrefix,
    lane: options.lane,
    timeScale: options.timeScale,
    ...(options.workerModels.length === 0 ? {} : { workerModels: options.workerModels }),
    ...(options.allowHttp ? { http } : {}),
    ...(options.allowMetrics ? { metrics: { address: metricsAddress(options), port: options.metricsPort } } : {}),
    log,
    logControl: control,
    ...(traces.ok ? { traces: traces.value } : {}),
  };
}
