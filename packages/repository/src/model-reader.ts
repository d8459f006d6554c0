import {
  type ModelSource,
  modelVersions,
  type ReadModelOptions,
  type RepositoryFolder,
  readModel,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { namedSource } from './named-source.ts';
import type { OverrideFolders } from './override-folders.ts';
import type { JoinedModel, ListedModel, Repositories } from './repositories.ts';
import type { FetchedModel } from './repository-source.ts';

/** Where a coordinator has its models from. */
export interface ModelReader {
  /** All that are there, by name. */
  folders(): Promise<readonly RepositoryFolder[]>;
  /** All that are there with signatures, by name. */
  list(): Promise<readonly ListedModel[]>;
  /** Throws a NereidError that says what is wrong with the model. `override` stands for its files, as override-ref has it. */
  read(name: string, override?: string): Promise<ModelSource>;
  /** The model's folder. Throws a NereidError where there is none. */
  directory(name: string, override?: string): Promise<string>;
  /** Version folders that are there, ascending: what a model's record tells where `read` fails. */
  versions(name: string, override?: string): Promise<readonly string[]>;
}

/** The same, and where a worker has them from. */
export interface ModelFiles extends ModelReader {
  /**
   * The model's files for who serves them, as they were when they had that content hash, where they are still there;
   * else as they are now. They stay until they are released.
   */
  open(name: string, contentHash: string, override?: string): Promise<OpenedFiles>;
}

/** Files of a model that somebody serves. */
export interface OpenedFiles {
  readonly directory: string;
  readonly contentHash: string;
  /** Idempotent. */
  release(): void;
}

/** Whose files move that often is still being written. */
const READS_MAX = 2;

export interface ReaderUse {
  readonly shared: boolean;
  /** Without it nothing is read but the repositories. */
  readonly overrides?: OverrideFolders;
}

/**
 * Reads models from repositories, anew at each call. The folder that it named last for a model stays. `shared`: who
 * opens a model shares this reader with the owner, so files that the owner has just read are not read again.
 */
export function repositoryReader(
  repositories: Repositories,
  options: ReadModelOptions,
  { shared, overrides }: ReaderUse = { shared: false },
): ModelFiles {
  /** What was fetched last, by model, and what its hash was where it was read. */
  const held = new Map<string, { readonly fetched: JoinedModel; readonly contentHash?: string }>();

  /** Of an override with files nothing of the repository is looked at. */
  const fetch = async (name: string, override?: string) => {
    const given = override === undefined ? undefined : await overrides?.open(name, override);
    if (override !== undefined && given === undefined) {
      throw new NereidError('UNSUPPORTED', `nothing is loaded here but from repositories, so '${name}' is not`);
    }
    const files = given?.files;
    const fetched: JoinedModel =
      files === undefined ? await repositories.fetch(name) : { ...files, folder: name, stepName: (step) => step };
    held.get(name)?.fetched.release();
    held.set(name, { fetched });
    return { fetched, config: given?.config };
  };

  /** Also gives a hold of the files that it has read. */
  const readHeld = async (name: string, override?: string): Promise<{ source: ModelSource; own: FetchedModel }> => {
    const { fetched, config } = await fetch(name, override);
    const own = fetched.hold();
    try {
      const { folder, directory } = fetched;
      const place = { name: folder, directory, ...(config === undefined ? {} : { config }) };
      const read = await readStill(name, fetched, () => readModel(place, options));
      const named = namedSource(read, name, fetched.stepName);
      const source = override === undefined ? named : { ...named, override };
      // Another read may have come in between.
      if (held.get(name)?.fetched === fetched) held.set(name, { fetched, contentHash: source.contentHash });
      return { source, own };
    } catch (error) {
      own.release();
      throw error;
    }
  };

  /** What was read last, if it had that hash and is still as it was. */
  const known = (name: string, contentHash: string): FetchedModel | undefined => {
    const last = held.get(name);
    if (last === undefined || last.contentHash !== contentHash) return undefined;
    return shared || last.fetched.signature === undefined ? last.fetched : undefined;
  };

  return {
    folders: repositories.folders,
    list: repositories.list,
    async read(name, override) {
      const { source, own } = await readHeld(name, override);
      own.release();
      return source;
    },
    directory: async (name, override) => (await fetch(name, override)).fetched.directory,
    async open(name, contentHash, override) {
      const last = known(name, contentHash)?.hold();
      if (last !== undefined) return { directory: last.directory, contentHash, release: last.release };
      const { source, own } = await readHeld(name, override);
      return { directory: own.directory, contentHash: source.contentHash, release: own.release };
    },
    versions: async (name, override) => modelVersions((await fetch(name, override)).fetched.directory),
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
