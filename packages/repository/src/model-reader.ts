import {
  type ModelSource,
  modelVersions,
  type ReadModelOptions,
  type RepositoryFolder,
  readModel,
} from '@nereid/config';
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

/** Reads models from repositories, anew at each call. The folder that it named last for a model stays. */
export function repositoryReader(repositories: Repositories, options: ReadModelOptions): ModelReader {
  const held = new Map<string, FetchedModel>();
  const fetch = async (name: string): Promise<string> => {
    const fetched = await repositories.fetch(name);
    held.get(name)?.release();
    held.set(name, fetched);
    return fetched.directory;
  };
  return {
    folders: repositories.folders,
    list: repositories.list,
    read: async (name) => readModel({ name, directory: await fetch(name) }, options),
    directory: fetch,
    versions: async (name) => modelVersions(await fetch(name)),
  };
}
