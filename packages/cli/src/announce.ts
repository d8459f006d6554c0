import type { ModelRecord, Options } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import { modelRows, renderModelTable } from './model-table.ts';

export interface Announced {
  readonly urls: { readonly http?: string; readonly metrics?: string };
  models(): readonly Pick<ModelRecord, 'name' | 'versions'>[];
}

function hostAndPort(url: string): string {
  return url.replace(/^https?:\/\//, '').replace(/\/$/, '');
}

/** Triton's start-up output: the table of models, then a line per service. */
export function announce(server: Announced, output: Options['logOutput'], log: Log): void {
  const rows = modelRows(server.models());
  if (output === 'text') log.info({ table: `${renderModelTable(rows)}\n` }, '');
  else log.info({ models: rows }, 'models');
  const { http, metrics } = server.urls;
  if (http !== undefined) log.info(`Started HTTPService at ${hostAndPort(http)}`);
  if (metrics !== undefined) log.info(`Started Metrics Service at ${hostAndPort(metrics)}`);
}
