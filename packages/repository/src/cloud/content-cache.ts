import { createHash } from 'node:crypto';
import { link, mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { FetchedModel } from '../repository-source.ts';
import type { ModelContents, ModelFile } from './model-contents.ts';
import { removeFolder } from './model-folders.ts';

export interface ContentCacheParts {
  /** A new folder, made when the first model is laid down. */
  readonly makeRoot: () => Promise<string>;
  /** Writes an object's contents to a new file. */
  readonly download: (file: ModelFile, path: string) => Promise<void>;
}

export interface CachedModel extends FetchedModel {
  /** It was not there before. */
  readonly isNew: boolean;
}

/**
 * The contents of models, each in a folder of its own that is complete from the moment it has its name, and never
 * changes. The contents that came last stay for the next load; older ones go once nobody holds them.
 */
export interface ContentCache {
  /** Who asks for contents that are on their way waits for these. Rejects with what `download` says. */
  get(contents: ModelContents): Promise<CachedModel>;
  /** Models that are not listed any more go once nobody holds them. */
  keep(names: ReadonlySet<string>): void;
  close(): Promise<void>;
}

interface Content {
  readonly signature: string;
  readonly files: readonly ModelFile[];
  readonly ready: Promise<string>;
  holders: number;
}

interface CachedContents {
  readonly contents: Map<string, Content>;
  /** Signature of those that came last. */
  latest: string;
}

export function createContentCache({ makeRoot, download }: ContentCacheParts): ContentCache {
  const models = new Map<string, CachedContents>();
  const removals = new Set<Promise<void>>();
  let root: Promise<string> | undefined;
  let folders = 0;

  const rootFolder = () => {
    root ??= makeRoot().catch((error) => {
      // The next load tries again.
      root = undefined;
      throw error;
    });
    return root;
  };

  const remove = (folder: string) => {
    const removal = removeFolder(folder).finally(() => removals.delete(removal));
    removals.add(removal);
  };

  const sweep = (name: string, model: CachedContents) => {
    for (const [signature, content] of model.contents) {
      if (signature === model.latest || content.holders > 0) continue;
      model.contents.delete(signature);
      content.ready.then(remove, () => {});
    }
    if (model.contents.size === 0) models.delete(name);
  };

  /** Files that are as they were in the contents before are linked, not downloaded. */
  const lay = async (file: ModelFile, folder: string, before: ReadonlyMap<string, string>) => {
    const path = join(folder, file.path);
    await mkdir(file.isFolder ? path : dirname(path), { recursive: true });
    if (file.isFolder) return;
    const same = before.get(fileKey(file));
    if (same !== undefined && (await linked(join(same, file.path), path))) return;
    await download(file, path);
  };

  const fill = async (contents: ModelContents, before: ReadonlyMap<string, string>): Promise<string> => {
    folders += 1;
    const folder = join(await rootFolder(), folderName(contents.name), `${contents.signature.slice(0, 16)}-${folders}`);
    const unfinished = `${folder}.part`;
    try {
      await mkdir(unfinished, { recursive: true });
      const outcomes = await Promise.allSettled(contents.files.map((file) => lay(file, unfinished, before)));
      const failed = outcomes.find(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
      await rename(unfinished, folder);
      return folder;
    } catch (error) {
      await removeFolder(unfinished);
      throw error;
    }
  };

  /** Where each file of the contents that came last is. */
  const lastFiles = async (model: CachedContents): Promise<ReadonlyMap<string, string>> => {
    const last = model.contents.get(model.latest);
    const folder = await last?.ready.catch(() => undefined);
    if (last === undefined || folder === undefined) return new Map();
    return new Map(last.files.map((file) => [fileKey(file), folder]));
  };

  const begin = (contents: ModelContents, model: CachedContents): Content => {
    const { signature, files } = contents;
    const ready = lastFiles(model).then((before) => fill(contents, before));
    const content: Content = { signature, files, ready, holders: 0 };
    model.contents.set(signature, content);
    ready.then(
      () => {
        model.latest = signature;
      },
      () => model.contents.delete(signature),
    );
    return content;
  };

  const held = (name: string, model: CachedContents, content: Content, directory: string): FetchedModel => {
    content.holders += 1;
    let isHeld = true;
    return {
      directory,
      hold: () => held(name, model, content, directory),
      release() {
        if (!isHeld) return;
        isHeld = false;
        content.holders -= 1;
        sweep(name, model);
      },
    };
  };

  return {
    async get(contents) {
      const { name, signature } = contents;
      const model = models.get(name) ?? { contents: new Map(), latest: '' };
      models.set(name, model);
      const there = model.contents.get(signature);
      const content = there ?? begin(contents, model);
      // From now on, so that it does not go before it is there.
      content.holders += 1;
      try {
        const directory = await content.ready;
        model.latest = signature;
        return { ...held(name, model, content, directory), isNew: there === undefined };
      } finally {
        content.holders -= 1;
        sweep(name, model);
      }
    },
    keep(names) {
      for (const [name, model] of models) {
        if (names.has(name)) continue;
        model.latest = '';
        sweep(name, model);
      }
    },
    async close() {
      const filling = [...models.values()].flatMap(({ contents }) => [...contents.values()].map(({ ready }) => ready));
      await Promise.allSettled([...filling, ...removals]);
      const folder = await root?.catch(() => undefined);
      if (folder !== undefined) await removeFolder(folder);
      models.clear();
    },
  };
}

function fileKey({ path, object }: ModelFile): string {
  return JSON.stringify([path, object.size, object.tag]);
}

/** False where it cannot be linked: the file is downloaded then. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch {
    return false;
  }
}

/** The model's name, where that is sure to be the name of a folder. */
function folderName(model: string): string {
  return /^[\w-][\w.-]{0,99}$/.test(model) ? model : createHash('sha256').update(model).digest('hex').slice(0, 32);
}
