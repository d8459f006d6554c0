import type { ModelRecord, Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import type { ProcessUrls } from '@nereid/server';
import { type FailedModel, modelRows, renderModelTable } from './model-table.ts';

export interface Announced {
  readonly urls: ProcessUrls;
  readonly loadFailures: readonly FailedModel[];
  models(): readonly Pick<ModelRecord, 'name' | 'versions'>[];
}

/** Triton's table of models, as data where the log is JSON. */
export function announceModels(server: Announced, options: Pick<Options, 'logOutput'>, log: Log): void {
  const rows = modelRows(server.models(), server.loadFailures);
  if (options.logOutput === 'text') log.info({ table: `${renderModelTable(rows)}\n` }, '');
  else log.info({ models: rows }, 'models');
}

/** Triton's line per service, and one about the Redis: what a producer of jobs must know, or other processes. */
export function announceServices(
  command: string,
  { urls }: Announced,
  options: Pick<Options, 'redisUrl' | 'redisPrefix' | 'jobPrefix'>,
  log: Log,
): void {
  if (urls.grpc !== undefined) log.info(`Started GRPCInferenceService at ${urls.grpc}`);
  if (urls.http !== undefined) {
    log.info(`Started HTTPService at ${withoutScheme(urls.http)}${urls.http.startsWith('https:') ? ', over TLS' : ''}`);
  }
  if (urls.metrics !== undefined) log.info(`Started Metrics Service at ${withoutScheme(urls.metrics)}`);
  if (urls.redis === undefined) return;
  if (options.redisUrl !== '') log.info(`Started ${command} on Redis ${urls.redis}, prefix ${options.redisPrefix}`);
  else log.info(`Started job queues on private Redis ${urls.redis}, BullMQ prefix ${options.jobPrefix}`);
}

function withoutScheme(url: string): string {
  return url.replace(/^https?:\/\//, '');
}
