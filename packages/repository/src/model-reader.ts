import {
  type ModelSource,
  modelVersions,
  type ReadModelOptions,
  type RepositoryFolder,
  readModel,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { ListedModel, Repositories } from './repositories.ts';
import type { FetchedModel } from './repository-source.ts';

/** Where a coordinator has its models from. */
export interface ModelReader {
  /** All that are there, by name. */
  folders(): Promise<readonly RepositoryFolder[]>;
  /** All that are there with signatures, by name. */
  list(): Promise<readonly ListedModel[]>;
  /** Throws a NereidError that says what is wrong with the model. */
  read(name: string): Promise<ModelSource>;
  /** The model's folder. Throws a NereidError where there is none. */
  directory(name: string): Promise<string>;
  /** Version folders that are there, ascending: what a model's record tells where `read` fails. */
  versions(name: string): Promise<readonly string[]>;
}

/** Whose files move that often is still being written. */
const READS_MAX = 2;

/** Reads models from repositories, anew at each call. The folder that it named last for a model stays. */
export function repositoryReader(repositories: Repositories, options: ReadModelOptions): ModelReader {
  const held = new Map<string, FetchedModel>();
  const fetch = async (name: string): Promise<FetchedModel> => {
    const fetched = await repositories.fetch(name);
    held.get(name)?.release();
    held.set(name, fetched);
    return fetched;
  };
  return {
    folders: repositories.folders,
    list: repositories.list,
    async read(name) {
      const fetched = await fetch(name);
      return readStill(name, fetched, () => readModel({ name, directory: fetched.directory }, options));
    },
    directory: async (name) => (await fetch(name)).directory,
    versions: async (name) => modelVersions((await fetch(name)).directory),
  };
}

/** Reads files that may move meanwhile: once more where they did. What a half-written model is found to lack says nothing. */
async function readStill<T>(name: string, { signature }: FetchedModel, read: () => Promise<T>): Promise<T> {
  for (let reads = 1; reads <= READS_MAX; reads++) {
    const before = await signature?.();
    const [outcome] = await Promise.allSettled([read()]);
    if ((await signature?.()) !== before) continue;
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  }
  const text = `failed to load '${name}': its files changed each time while they were read; load it again once they are whole`;
  throw new NereidError('UNAVAILABLE', text);
}
