import { decodeRepositoryList, REPOSITORY_VALUE, type RepositoryFolder } from '@nereid/config';
import type { Directory } from '@nereid/transport';

/** The names that clients use, where repositories may hold models of the same name (`--model-namespacing`). */
export interface ModelNames {
  /**
   * The model that is meant: its name, or how many could be. Undefined where there is nothing else to say of the name. A
   * name may have before it, with `::`, any end of its repository's path that tells which is meant.
   */
  resolve(name: string): string | number | undefined;
}

const SEPARATOR = '::';

/** As the coordinators have told last. */
export function createModelNames(directory: Pick<Directory<unknown>, 'value'>): ModelNames {
  let read: { readonly text: string; readonly resolve: ModelNames['resolve'] } | undefined;
  return {
    resolve(name) {
      const text = directory.value(REPOSITORY_VALUE)?.text;
      if (text === undefined) return undefined;
      if (read?.text !== text) read = { text, resolve: resolver(decodeRepositoryList(text)?.folders ?? []) };
      return read.resolve(name);
    },
  };
}

type Placed = RepositoryFolder & Required<Pick<RepositoryFolder, 'from'>>;

function resolver(folders: readonly RepositoryFolder[]): ModelNames['resolve'] {
  const known = new Set<string>();
  const byFolder = new Map<string, Placed[]>();
  for (const { from, ...folder } of folders) {
    if (from === undefined) continue;
    known.add(folder.name);
    byFolder.set(from.folder, [...(byFolder.get(from.folder) ?? []), { ...folder, from }]);
  }
  if (known.size === 0) return () => undefined;
  return (name) => {
    if (known.has(name)) return undefined;
    const found = [...(byFolder.get(name) ?? []), ...withNamespace(name, byFolder)];
    return found.length > 1 ? found.length : found[0]?.name;
  };
}

/** Wherever the name may be cut in two: both parts may have the separator in them. */
function withNamespace(name: string, byFolder: ReadonlyMap<string, readonly Placed[]>): Placed[] {
  const found: Placed[] = [];
  for (let at = name.indexOf(SEPARATOR); at > 0; at = name.indexOf(SEPARATOR, at + 1)) {
    const namespace = name.slice(0, at);
    const folders = byFolder.get(name.slice(at + SEPARATOR.length)) ?? [];
    found.push(...folders.filter(({ from }) => isEnd(namespace, from.repository)));
  }
  return found;
}

function isEnd(namespace: string, repository: string): boolean {
  return repository === namespace || repository.endsWith(`/${namespace}`);
}
