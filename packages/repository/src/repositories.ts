import { LIMITS, type RepositoryFolder } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { FetchedModel, RepositoryModel, RepositorySource } from './repository-source.ts';

/** A model of one of several repositories. */
export interface ListedModel extends RepositoryFolder, RepositoryModel {}

/** All repositories of a process as one. */
export interface Repositories {
  /** By name. A name in two repositories gives one entry with a conflict. Throws INVALID_ARG where they hold too many. */
  folders(): Promise<readonly RepositoryFolder[]>;
  /** The same with signatures; of a conflict it is that of the first. */
  list(): Promise<readonly ListedModel[]>;
  /** The model in the repository that has it. Throws a NereidError where none has, or more than one. */
  fetch(name: string): Promise<FetchedModel>;
  close(): Promise<void>;
}

export function joinRepositories(given: readonly RepositorySource[]): Repositories {
  const sources = [...new Map(given.map((source) => [source.place, source])).values()];

  /** What `look` finds in each, joined by name. */
  const joined = async <T extends { readonly name: string }>(
    look: (source: RepositorySource) => Promise<readonly T[]>,
  ): Promise<(T & RepositoryFolder & { readonly source: RepositorySource })[]> => {
    const models = new Map<string, T & RepositoryFolder & { readonly source: RepositorySource }>();
    const found = await Promise.all(sources.map(async (source) => ({ source, entries: await look(source) })));
    for (const { source, entries } of found) {
      for (const entry of entries) {
        const first = models.get(entry.name);
        const conflict = first === undefined ? null : 'model appears in two or more repositories';
        models.set(entry.name, { ...(first ?? { ...entry, source }), conflict });
      }
      if (models.size > LIMITS.models_max) {
        throw new NereidError('INVALID_ARG', `the repositories hold more than ${LIMITS.models_max} models`);
      }
    }
    return [...models.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  };

  const named = () => joined(async (source) => (await source.names()).map((name) => ({ name })));

  return {
    folders: async () => (await named()).map(({ name, conflict }) => ({ name, conflict })),
    list: async () =>
      (await joined((source) => source.list())).map(({ name, conflict, signature }) => ({ name, conflict, signature })),
    async fetch(name) {
      const entry = (await named()).find((model) => model.name === name);
      // Triton's text (server.cc); it tells the reason in its log only.
      if (entry === undefined) {
        throw new NereidError('INTERNAL', `failed to load '${name}', failed to poll from model repository`);
      }
      if (entry.conflict !== null) throw new NereidError('INVALID_ARG', `failed to load '${name}': ${entry.conflict}`);
      return entry.source.fetch(name);
    },
    async close() {
      await Promise.all(sources.map((source) => source.close()));
    },
  };
}
