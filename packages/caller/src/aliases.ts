import { ALIASES_VALUE, type Alias, type AliasTable, decodeAliases } from '@nereid/config';
import type { Directory } from '@nereid/transport';

/** The aliases of the cluster, as this process has heard of them. */
export interface Aliases {
  find(name: string): Alias | undefined;
}

export function createAliases(directory: Pick<Directory<unknown>, 'value'>): Aliases {
  let read: { readonly text: string; readonly table: AliasTable } | undefined;
  return {
    find(name) {
      const text = directory.value(ALIASES_VALUE)?.text;
      if (text === undefined) return undefined;
      if (read?.text !== text) read = { text, table: decodeAliases(text) };
      return read.table.get(name);
    },
  };
}
