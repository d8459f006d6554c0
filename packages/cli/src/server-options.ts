import { backendSettings, type Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import type { ServerOptions } from '@nereid/server';

/** The flags as `createServer` takes them. */
export function serverOptions(options: Options, log: Log): ServerOptions {
  const metricsAddress = options.metricsAddress === '' ? options.httpAddress : options.metricsAddress;
  const http = { address: options.httpAddress, port: options.httpPort, maxInputBytes: options.httpMaxInputSize };
  return {
    id: options.id,
    modelRepositories: options.modelRepository,
    modelControlMode: options.modelControlMode,
    loadModels: options.loadModel,
    exitOnError: options.exitOnError,
    strictReadiness: options.strictReadiness,
    autoCompleteConfig: !options.disableAutoCompleteConfig,
    modelConfigName: options.modelConfigName,
    modelLoadThreads: options.modelLoadThreadCount,
    backendConfig: backendSettings(options.backendConfig),
    ...(options.allowHttp ? { http } : {}),
    ...(options.allowMetrics ? { metrics: { address: metricsAddress, port: options.metricsPort } } : {}),
    log,
  };
}
