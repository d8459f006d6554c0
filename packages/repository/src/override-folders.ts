/** Models that are made of what clients have sent, in folders of this process. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type ConfigText, decodeOverride, type OverrideRef } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { FetchedModel } from './repository-source.ts';

/** What a load takes in place of a model's files. */
export interface OpenedOverride {
  readonly config: ConfigText | undefined;
  /** All of the model's files; undefined where these are the repository's. */
  readonly files: FetchedModel | undefined;
}

export interface OverrideFolders {
  /** Throws a NereidError where what it refers to is not there (any more). */
  open(model: string, override: string): Promise<OpenedOverride>;
  /** Removes all folders. */
  close(): Promise<void>;
}

interface Folder {
  readonly made: Promise<string>;
  users: number;
}

const FOLDER_MODE = 0o700;

/** `get` has uploads by their names. Nothing is put down where no override has files. */
export function createOverrideFolders(get: (name: string) => Promise<Uint8Array | undefined>): OverrideFolders {
  /** By the override. */
  const folders = new Map<string, Folder>();
  let root: Promise<string> | undefined;
  let made = 0;

  const upload = async (model: string, name: string): Promise<Uint8Array> => {
    const bytes = await get(name);
    if (bytes !== undefined) return bytes;
    const text = `what model '${model}' was loaded from over the network is not kept any more; load it again`;
    throw new NereidError('UNAVAILABLE', text);
  };

  const write = async (model: string, files: NonNullable<OverrideRef['files']>): Promise<string> => {
    root ??= mkdtemp(join(tmpdir(), 'nereid-models-'));
    const folder = join(await root, String(++made), model);
    await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
    for (const [path, name] of Object.entries(files)) {
      // Gateways have checked the paths; another build's may not have.
      if (path.split('/').some((part) => part === '' || part === '.' || part === '..')) {
        throw new NereidError('INVALID_ARG', `'file:${path}' of model '${model}' leads out of its folder`);
      }
      const file = join(folder, path);
      await mkdir(dirname(file), { recursive: true, mode: FOLDER_MODE });
      await writeFile(file, await upload(model, name));
    }
    return folder;
  };

  const folderOf = (model: string, key: string, files: NonNullable<OverrideRef['files']>): Folder => {
    const known = folders.get(key);
    if (known !== undefined) return known;
    const folder = { made: write(model, files), users: 0 };
    folders.set(key, folder);
    return folder;
  };

  const leave = (key: string, folder: Folder) => {
    folder.users--;
    if (folder.users > 0) return;
    if (folders.get(key) === folder) folders.delete(key);
    // What stays for an error goes with the root.
    folder.made.then((path) => rm(dirname(path), { recursive: true, force: true })).catch(() => {});
  };

  const held = (key: string, folder: Folder, directory: string): FetchedModel => {
    let isHeld = true;
    return {
      directory,
      hold() {
        folder.users++;
        return held(key, folder, directory);
      },
      release() {
        if (isHeld) leave(key, folder);
        isHeld = false;
      },
    };
  };

  return {
    async open(model, override) {
      const ref = decodeOverride(override);
      if (ref === undefined) throw new NereidError('INTERNAL', `the override of model '${model}' cannot be read`);
      const text = ref.config === undefined ? undefined : Buffer.from(await upload(model, ref.config)).toString();
      const config = text === undefined ? undefined : ({ source: "parameter 'config'", text, form: 'json' } as const);
      if (ref.files === undefined) return { config, files: undefined };
      const key = `${model}\0${override}`;
      const folder = folderOf(model, key, ref.files);
      folder.users++;
      try {
        return { config, files: held(key, folder, await folder.made) };
      } catch (error) {
        leave(key, folder);
        throw error;
      }
    },
    async close() {
      folders.clear();
      if (root !== undefined) await rm(await root, { recursive: true, force: true });
    },
  };
}
