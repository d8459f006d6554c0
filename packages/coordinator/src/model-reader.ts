import {
  listModels,
  type ModelSource,
  modelVersions,
  type ReadModelOptions,
  type RepositoryFolder,
  readModel,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';

/** Where models come from. */
export interface ModelReader {
  /** All that are there, by name. */
  folders(): Promise<readonly RepositoryFolder[]>;
  /** Throws a NereidError that says what is wrong with the model. */
  read(name: string): Promise<ModelSource>;
  /** The model's folder. Throws a NereidError where there is none. */
  directory(name: string): Promise<string>;
  /** Version folders that are there, ascending: what a model's record tells where `read` fails. */
  versions(name: string): Promise<readonly string[]>;
}

/** Reads models from repository folders, anew at each call. */
export function repositoryReader(repositories: readonly string[], options: ReadModelOptions): ModelReader {
  const find = async (name: string) => {
    const entry = (await listModels(repositories)).find((model) => model.name === name);
    // Triton's text (server.cc); it tells the reason in its log only.
    if (entry === undefined) {
      throw new NereidError('INTERNAL', `failed to load '${name}', failed to poll from model repository`);
    }
    if (entry.conflict !== null) throw new NereidError('INVALID_ARG', `failed to load '${name}': ${entry.conflict}`);
    return entry;
  };
  return {
    folders: async () => (await listModels(repositories)).map(({ name, conflict }) => ({ name, conflict })),
    read: async (name) => readModel(await find(name), options),
    directory: async (name) => (await find(name)).directory,
    versions: async (name) => modelVersions((await find(name)).directory),
  };
}
