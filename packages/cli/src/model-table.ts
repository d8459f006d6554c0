import type { ModelRecord } from '@nereid/config';
import { renderTable } from './table.ts';

export interface ModelRow {
  readonly model: string;
  readonly version: string;
  readonly status: string;
}

/** A model that did not load, also where its folder was too wrong to become a record. */
export interface FailedModel {
  readonly model: string;
  readonly error: { readonly message: string };
}

/**
 * One row per known version, sorted by model, in Triton's words (core/src/server.cc); and one per
 * failed model of which no version is known, which Triton leaves out.
 */
export function modelRows(
  records: readonly Pick<ModelRecord, 'name' | 'versions'>[],
  failures: readonly FailedModel[],
): readonly ModelRow[] {
  const known = new Set(records.map((record) => record.name));
  const rows = records.flatMap(({ name, versions }): readonly ModelRow[] => {
    if (versions.length === 0) {
      return [{ model: name, version: '-', status: 'Not loaded: No model version was found' }];
    }
    return versions.map(({ version, state, reason }) => ({
      model: name,
      version,
      status: reason === '' ? state : `${state}: ${reason}`,
    }));
  });
  const unknown = failures
    .filter(({ model }) => !known.has(model))
    .map(({ model, error }) => ({ model, version: '-', status: `Not loaded: ${error.message}` }));
  return [...rows, ...unknown].sort((a, b) => (a.model < b.model ? -1 : a.model > b.model ? 1 : 0));
}

/** Triton's table of models: Model | Version | Status. */
export function renderModelTable(rows: readonly ModelRow[]): string {
  return renderTable(
    ['Model', 'Version', 'Status'],
    rows.map((row) => [row.model, row.version, row.status]),
  );
}
