import { backendSettings, type Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import type { ServerOptions } from '@nereid/server';
import type { Listeners } from './start-failure.ts';

/** Where the services listen, undefined for those that are switched off. */
export function listenersOf(options: Options): Listeners {
  const metricsAddress = options.metricsAddress === '' ? options.httpAddress : options.metricsAddress;
  return {
    http: options.allowHttp ? { address: options.httpAddress, port: options.httpPort } : undefined,
    metrics: options.allowMetrics ? { address: metricsAddress, port: options.metricsPort } : undefined,
  };
}

/** The flags as `createServer` takes them. */
export function serverOptions(options: Options, log: Log): ServerOptions {
  const { http, metrics } = listenersOf(options);
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
    ...(http === undefined ? {} : { http: { ...http, maxInputBytes: options.httpMaxInputSize } }),
    ...(metrics === undefined ? {} : { metrics }),
    log,
  };
}
