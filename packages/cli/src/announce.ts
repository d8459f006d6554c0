import type { ModelRecord, Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import { type FailedModel, modelRows, renderModelTable } from './model-table.ts';

export interface Announced {
  readonly urls: { readonly http?: string; readonly metrics?: string };
  readonly loadFailures: readonly FailedModel[];
  models(): readonly Pick<ModelRecord, 'name' | 'versions'>[];
}

/** Triton's table of models, as data where the log is JSON. */
export function announceModels(server: Announced, options: Pick<Options, 'logOutput'>, log: Log): void {
  const rows = modelRows(server.models(), server.loadFailures);
  if (options.logOutput === 'text') log.info({ table: `${renderModelTable(rows)}\n` }, '');
  else log.info({ models: rows }, 'models');
}

/** Triton's line per service. */
export function announceServices({ urls }: Announced, log: Log): void {
  if (urls.http !== undefined) log.info(`Started HTTPService at ${withoutScheme(urls.http)}`);
  if (urls.metrics !== undefined) log.info(`Started Metrics Service at ${withoutScheme(urls.metrics)}`);
}

function withoutScheme(url: string): string {
  return url.replace('http://', '');
}
