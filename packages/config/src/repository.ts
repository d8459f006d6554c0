import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { NereidError } from '@nereid/protocol';
import { LIMITS } from './limits.ts';

/** A model's folder in a repository. */
export interface RepositoryEntry {
  readonly name: string;
  /** Absolute; of a conflict the first one. */
  readonly directory: string;
  /** Why the model cannot be loaded whatever its files are (the index's reason); null for none. */
  readonly conflict: string | null;
}

/**
 * The models of all repositories: their sub-folders (also linked ones) by name, but for those whose
 * name starts with a dot. A name in two repositories gives one entry with a conflict.
 * Throws INVALID_ARG where a repository is no readable folder or holds too many models.
 */
export async function listModels(repositories: readonly string[]): Promise<RepositoryEntry[]> {
  const models = new Map<string, RepositoryEntry>();
  for (const repository of new Set(repositories.map((path) => resolve(path)))) {
    for (const name of await folderNames(repository)) {
      const first = models.get(name);
      const entry: RepositoryEntry = { name, directory: join(repository, name), conflict: null };
      models.set(
        name,
        first === undefined ? entry : { ...first, conflict: 'model appears in two or more repositories' },
      );
      if (models.size > LIMITS.models_max) {
        throw new NereidError('INVALID_ARG', `the repositories hold more than ${LIMITS.models_max} models`);
      }
    }
  }
  return [...models.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The models of one repository, see `listModels`. Throws INVALID_ARG where it is no readable folder. */
export async function folderNames(repository: string): Promise<string[]> {
  try {
    const entries = await readdir(repository, { withFileTypes: true });
    const names: string[] = [];
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue;
      const linked = entry.isSymbolicLink() && (await isFolder(join(repository, entry.name)));
      if (entry.isDirectory() || linked) names.push(entry.name);
    }
    return names;
  } catch (error) {
    throw unreadable('model repository', repository, error);
  }
}

/** False for a link that leads nowhere. */
export async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}

/** An INVALID_ARG error for a folder that cannot be listed. */
export function unreadable(what: string, path: string, error: unknown): NereidError {
  const reason = error instanceof Error ? error.message : String(error);
  return new NereidError('INVALID_ARG', `the ${what} '${path}' cannot be read: ${reason}`, { cause: error });
}
