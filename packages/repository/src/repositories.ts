import { createHash } from 'node:crypto';
import { LIMITS, type RepositoryFolder } from '@nereid/config';
import { ambiguousModel, NereidError } from '@nereid/protocol';
import { modelNames, namespacesOf, repeatedFolders, stepName } from './namespaces.ts';
import type { FetchedModel, RepositoryModel, RepositorySource } from './repository-source.ts';

/** A model of one of several repositories. */
export interface ListedModel extends RepositoryFolder, RepositoryModel {}

export interface JoinedModel extends FetchedModel {
  /** The name of its folder, which its config has. */
  readonly folder: string;
  /** What the model that a step of it names is asked for by. */
  readonly stepName: (step: string) => string;
}

/** All repositories of a process as one. */
export interface Repositories {
  /** By name. A name in two repositories gives one entry with a conflict. Throws INVALID_ARG where they hold too many. */
  folders(): Promise<readonly RepositoryFolder[]>;
  /** The same with signatures; of a conflict it is that of the first. */
  list(): Promise<readonly ListedModel[]>;
  /** The model in the repository that has it. Throws a NereidError where none has, or more than one. */
  fetch(name: string): Promise<JoinedModel>;
  close(): Promise<void>;
}

interface Found extends RepositoryFolder {
  readonly source: RepositorySource;
  readonly place: string;
  readonly folder: string;
}

/** `namespacing`: repositories may hold models of the same name, which are asked for with a namespace (namespaces.ts). */
export function joinRepositories(
  given: readonly RepositorySource[],
  { namespacing = false }: { readonly namespacing?: boolean } = {},
): Repositories {
  const sources = [...new Map(given.map((source) => [source.place, source])).values()];
  const namespaces = namespacesOf(sources.map(({ place }) => place));

  /** What `look` finds in each, joined by name. */
  const joined = async <T extends { readonly name: string }>(
    look: (source: RepositorySource) => Promise<readonly T[]>,
  ): Promise<(Found & { readonly entry: T })[]> => {
    const looks = await Promise.all(sources.map(async (source) => ({ source, entries: await look(source) })));
    const found = looks.flatMap(({ source, entries }) =>
      entries.map((entry) => ({ source, place: source.place, folder: entry.name, entry })),
    );
    const named = namespacing
      ? modelNames(found, namespaces).map((each) => ({
          ...each,
          from: { repository: each.place, folder: each.folder },
        }))
      : found.map((each) => ({ ...each, name: each.folder }));
    const models = new Map<string, Found & { readonly entry: T }>();
    for (const model of named) {
      const first = models.get(model.name);
      const conflict = first === undefined ? null : 'model appears in two or more repositories';
      models.set(model.name, { ...(first ?? model), conflict });
    }
    if (models.size > LIMITS.models_max) {
      throw new NereidError('INVALID_ARG', `the repositories hold more than ${LIMITS.models_max} models`);
    }
    return [...models.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  };

  const names = () => joined(async (source) => (await source.names()).map((name) => ({ name })));

  /** Which names have a namespace says what the steps of any ensemble mean: a model is another one with them. */
  const signature = (own: string, repeated: ReadonlySet<string>) =>
    repeated.size === 0
      ? own
      : createHash('sha256')
          .update(JSON.stringify([own, ...[...repeated].sort()]))
          .digest('hex');

  return {
    folders: async () => (await names()).map(folderOf),
    async list() {
      const found = await joined((source) => source.list());
      const repeated = namespacing ? repeatedFolders(found) : new Set<string>();
      return found.map((model) => ({ ...folderOf(model), signature: signature(model.entry.signature, repeated) }));
    },
    async fetch(name) {
      const models = await names();
      const found = models.find((model) => model.name === name);
      if (found === undefined) throw unknown(name, models);
      if (found.conflict !== null) throw new NereidError('INVALID_ARG', `failed to load '${name}': ${found.conflict}`);
      const { source, place, folder } = found;
      const fetched = await source.fetch(folder);
      return { ...fetched, folder, stepName: (step) => (namespacing ? stepName(step, place, models) : step) };
    },
    async close() {
      await Promise.all(sources.map((source) => source.close()));
    },
  };
}

function folderOf({ name, conflict, from }: Found): RepositoryFolder {
  return { name, conflict, ...(from === undefined ? {} : { from }) };
}

function unknown(name: string, models: readonly Found[]): NereidError {
  const count = models.filter(({ folder }) => folder === name).length;
  if (count > 1) {
    const { code, message } = ambiguousModel(name, count);
    return new NereidError(code, message);
  }
  // Triton's text (server.cc); it tells the reason in its log only.
  return new NereidError('INTERNAL', `failed to load '${name}', failed to poll from model repository`);
}
