import { setMaxListeners } from 'node:events';
import { LIMITS } from '@nereid/config';
import { NereidError, thrownText } from '@nereid/protocol';
import { type Clock, createAtMost } from '@nereid/runtime';
import type { RepositorySource } from '../repository-source.ts';
import type { CloudPlace } from './cloud-place.ts';
import { createContentCache } from './content-cache.ts';
import { downloadObject } from './download.ts';
import { checkContents, type ModelContents, type ModelFile, modelContents } from './model-contents.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';
import { storeError } from './store-error.ts';

export interface CloudRepositoryParts {
  readonly place: CloudPlace;
  /** Called at the first use; where it fails the next use calls it again. */
  readonly open: () => Promise<ObjectStore>;
  /** A new folder to lay down models in. */
  readonly makeRoot: () => Promise<string>;
  readonly clock: Clock;
}

/** The objects changed between being listed and being read. */
class ObjectsChanged extends Error {
  override readonly name = 'ObjectsChanged';
}

const FETCHES_MAX = 2;
/** System calls by which files are laid down. */
const FILE_CALLS: ReadonlySet<unknown> = new Set(['open', 'write', 'close', 'mkdir', 'rename', 'link']);

/**
 * A repository in a bucket. A model is taken whole: listed, downloaded beside what is there, and listed again. Where
 * it is not as it was, it is fetched once more.
 */
export function cloudRepository({ place, open, makeRoot, clock }: CloudRepositoryParts): RepositorySource {
  const stop = new AbortController();
  // Each download listens.
  setMaxListeners(0, stop.signal);
  const atMost = createAtMost(LIMITS.cloud_downloads_max);
  let opened: Promise<ObjectStore> | undefined;

  const store = (): Promise<ObjectStore> => {
    opened ??= open().catch((error) => {
      opened = undefined;
      throw error instanceof NereidError ? error : storeError(place, 'other', error);
    });
    return opened;
  };

  /** What `ask` says; what it throws in words. */
  const asked = async <T>(ask: (store: ObjectStore) => Promise<T>): Promise<T> => {
    const asks = await store();
    try {
      return await ask(asks);
    } catch (error) {
      // A listing has no object that could have changed: it is the bucket that is not there.
      const failure = asks.failure(error);
      throw storeError(place, failure === 'changed' ? 'no_bucket' : failure, error);
    }
  };

  const listed = (prefix: string): Promise<readonly ModelContents[]> =>
    asked(async (asks) => {
      const objects: StoredObject[] = [];
      for await (const page of asks.pages(prefix)) objects.push(...page);
      return modelContents(objects, place.prefix);
    });

  const look = async (name: string): Promise<ModelContents> => {
    const found = (await listed(`${place.prefix}${name}/`)).find((model) => model.name === name);
    if (found === undefined) {
      throw new NereidError('NOT_FOUND', `model '${name}' is not in the repository '${place.url}'`);
    }
    checkContents(found, place.url);
    return found;
  };

  const download = async ({ object }: ModelFile, path: string) => {
    const reads = await store();
    try {
      await atMost(() => downloadObject(reads, object, path, clock, stop.signal));
    } catch (error) {
      if (stop.signal.aborted) throw new NereidError('UNAVAILABLE', 'the server is stopping', { cause: error });
      const failure = reads.failure(error);
      if (failure === 'changed') throw new ObjectsChanged(object.key, { cause: error });
      if (isFileError(error)) {
        const text = `the file '${path}' cannot be written: ${thrownText(error)}`;
        throw new NereidError('UNAVAILABLE', text, { cause: error });
      }
      throw storeError(place, failure, error, object.key);
    }
  };

  const cache = createContentCache({ makeRoot, download });

  /** Undefined where the model changed meanwhile. */
  const fetchOnce = async (name: string) => {
    const contents = await look(name);
    try {
      const fetched = await cache.get(contents);
      if (!fetched.isNew || (await look(name)).signature === contents.signature) return fetched;
      fetched.release();
    } catch (error) {
      if (!(error instanceof ObjectsChanged)) throw error;
    }
    return undefined;
  };

  return {
    place: place.url,
    names: () =>
      asked(async (asks) => {
        const names = await asks.folders(place.prefix);
        return names.filter((name) => name !== '' && !name.startsWith('.')).sort();
      }),
    async list() {
      const models = await listed(place.prefix);
      cache.keep(new Set(models.map(({ name }) => name)));
      return models.map(({ name, signature }) => ({ name, signature }));
    },
    async fetch(name) {
      for (let fetches = 1; fetches <= FETCHES_MAX; fetches++) {
        const fetched = await fetchOnce(name);
        if (fetched !== undefined) return fetched;
      }
      const text =
        `the files of model '${name}' in '${place.url}' changed while they were fetched, and again at the next try: ` +
        'load it once they are all written';
      throw new NereidError('UNAVAILABLE', text);
    },
    async close() {
      stop.abort();
      await cache.close();
      (await opened?.catch(() => undefined))?.close();
    },
  };
}

function isFileError(error: unknown): boolean {
  if (!(error instanceof Error) || !('syscall' in error)) return false;
  return FILE_CALLS.has(error.syscall) && 'path' in error;
}
