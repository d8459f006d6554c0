import type { ModelRecord, Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import { type FailedModel, modelRows, renderModelTable } from './model-table.ts';
import { metricsAddress } from './server-options.ts';

export interface Announced {
  readonly urls: { readonly http?: string; readonly metrics?: string };
  readonly loadFailures: readonly FailedModel[];
  models(): readonly Pick<ModelRecord, 'name' | 'versions'>[];
}

type AnnounceOptions = Pick<Options, 'logOutput' | 'httpAddress' | 'metricsAddress'>;

/** The address as asked for (a URL for 0.0.0.0 may name another) with the port that is in use. */
function listener(address: string, url: string): string {
  const host = address.includes(':') ? `[${address}]` : address;
  return `${host}:${/:(\d+)\/?$/.exec(url)?.[1] ?? ''}`;
}

/** Triton's table of models, as data where the log is JSON. */
export function announceModels(server: Announced, options: AnnounceOptions, log: Log): void {
  const rows = modelRows(server.models(), server.loadFailures);
  if (options.logOutput === 'text') log.info({ table: `${renderModelTable(rows)}\n` }, '');
  else log.info({ models: rows }, 'models');
}

/** Triton's line per service. */
export function announceServices(server: Announced, options: AnnounceOptions, log: Log): void {
  const { http, metrics } = server.urls;
  if (http !== undefined) log.info(`Started HTTPService at ${listener(options.httpAddress, http)}`);
  if (metrics !== undefined) log.info(`Started Metrics Service at ${listener(metricsAddress(options), metrics)}`);
}
