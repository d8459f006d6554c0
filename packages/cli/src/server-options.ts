import { backendSettings, type Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import type { ServerOptions } from '@nereid/server';

/** Where metrics are served: where HTTP is, unless said otherwise. */
export function metricsAddress(options: Pick<Options, 'httpAddress' | 'metricsAddress'>): string {
  return options.metricsAddress === '' ? options.httpAddress : options.metricsAddress;
}

/** The flags as `createServer` takes them. */
export function serverOptions(options: Options, log: Log): ServerOptions {
  const http = { address: options.httpAddress, port: options.httpPort, maxInputBytes: options.httpMaxInputSize };
  return {
    id: options.id,
    modelRepositories: options.modelRepository,
    modelControlMode: options.modelControlMode,
    loadModels: options.loadModel,
    // `serve` itself ends where a model failed, after it has shown the table of all, as Triton does.
    exitOnError: false,
    strictReadiness: options.strictReadiness,
    autoCompleteConfig: !options.disableAutoCompleteConfig,
    modelConfigName: options.modelConfigName,
    modelLoadThreads: options.modelLoadThreadCount,
    backendConfig: backendSettings(options.backendConfig),
    ...(options.allowHttp ? { http } : {}),
    ...(options.allowMetrics ? { metrics: { address: metricsAddress(options), port: options.metricsPort } } : {}),
    log,
  };
}
