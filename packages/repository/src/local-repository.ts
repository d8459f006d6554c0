import type { Dirent } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, posix, resolve } from 'node:path';
import { folderNames, isFolder, isIgnoredName, LIMITS } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { FetchedModel, RepositorySource } from './repository-source.ts';
import { createSignature, type Signature } from './signature.ts';

/** A folder of this machine. Models are read where they are. */
export function localRepository(path: string): RepositorySource {
  const root = resolve(path);
  return {
    place: root,
    names: () => folderNames(root),
    async list() {
      const models: { name: string; signature: string }[] = [];
      // One after the other: they share the few threads that look at files.
      for (const name of await folderNames(root)) {
        models.push({ name, signature: await folderSignature(join(root, name)) });
      }
      return models;
    },
    async fetch(name) {
      const directory = join(root, name);
      if (await isFolder(directory)) return fetchedFolder(directory);
      throw new NereidError('NOT_FOUND', `model '${name}' is not in the repository '${root}'`);
    },
    close: async () => {},
  };
}

function fetchedFolder(directory: string): FetchedModel {
  const fetched: FetchedModel = {
    directory,
    signature: () => folderSignature(directory),
    hold: () => fetched,
    release() {},
  };
  return fetched;
}

/** Over paths, sizes and times of change of all files that count, and the paths of folders. */
async function folderSignature(directory: string): Promise<string> {
  const signature = createSignature();
  await addFolder(signature, directory, '', []);
  return signature.text();
}

/** What goes while it is looked at is not there. `above`: the folders that this one is in, where a circle of links ends. */
async function addFolder(
  signature: Signature,
  directory: string,
  folder: string,
  above: readonly string[],
): Promise<void> {
  for (const entry of await entriesOf(join(directory, folder))) {
    if (signature.files >= LIMITS.model_files_max) return;
    const path = posix.join(folder, entry.name);
    if (isIgnoredName(entry.name)) continue;
    const found = await stat(join(directory, path), { bigint: true }).catch(() => undefined);
    if (found === undefined) continue;
    if (!found.isDirectory()) {
      signature.add(path, found.size, found.mtimeNs);
      continue;
    }
    signature.add(`${path}/`);
    const identity = `${found.dev}:${found.ino}`;
    if (!above.includes(identity)) await addFolder(signature, directory, path, [...above, identity]);
  }
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    return [];
  }
}
