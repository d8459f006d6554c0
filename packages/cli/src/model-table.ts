import type { ModelRecord } from '@nereid/config';
import { renderTable } from './table.ts';

export interface ModelRow {
  readonly model: string;
  readonly version: string;
  readonly status: string;
}

/** One row per known version, sorted by model, in Triton's words (core/src/server.cc). */
export function modelRows(records: readonly Pick<ModelRecord, 'name' | 'versions'>[]): readonly ModelRow[] {
  const sorted = [...records].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  return sorted.flatMap(({ name, versions }): readonly ModelRow[] => {
    if (versions.length === 0) {
      return [{ model: name, version: '-', status: 'Not loaded: No model version was found' }];
    }
    return versions.map(({ version, state, reason }) => ({
      model: name,
      version,
      status: reason === '' ? state : `${state}: ${reason}`,
    }));
  });
}

/** Triton's table of models: Model | Version | Status. */
export function renderModelTable(rows: readonly ModelRow[]): string {
  return renderTable(
    ['Model', 'Version', 'Status'],
    rows.map((row) => [row.model, row.version, row.status]),
  );
}
