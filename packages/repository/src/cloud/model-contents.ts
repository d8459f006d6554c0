import { isIgnoredName, LIMITS } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { createSignature } from '../signature.ts';
import type { StoredObject } from './object-store.ts';

/** A file, or a folder that is told of, of a model. */
export interface ModelFile {
  /** Below the model's folder, with slashes; '' is that folder itself. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly object: StoredObject;
}

/** What a listing says of one model. */
export interface ModelContents {
  readonly name: string;
  /** By path. */
  readonly files: readonly ModelFile[];
  /** Equal exactly where all files are. */
  readonly signature: string;
}

/** The models among objects whose keys begin with `prefix`, by name. What stands beside models, and ignored names, are left out. */
export function modelContents(objects: readonly StoredObject[], prefix: string): ModelContents[] {
  const models = new Map<string, ModelFile[]>();
  for (const object of objects) {
    const isFolder = object.isFolder === true || object.key.endsWith('/');
    const segments = object.key.slice(prefix.length).replace(/\/$/, '').split('/');
    const [name = '', ...path] = segments;
    if (name === '' || segments.some(isIgnoredName) || (path.length === 0 && !isFolder)) continue;
    const files = models.get(name) ?? [];
    models.set(name, files);
    files.push({ path: path.join('/'), isFolder, object });
  }
  return [...models].map(([name, files]) => contents(name, files)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function contents(name: string, given: readonly ModelFile[]): ModelContents {
  // Not every server lists in the order of keys.
  const files = [...given].sort((a, b) => (a.path < b.path ? -1 : 1));
  const signature = createSignature();
  for (const { path, isFolder, object } of files) signature.add(path, String(isFolder), object.size, object.tag);
  return { name, files, signature: signature.text() };
}

/** Throws INVALID_ARG for what cannot be laid down as files. */
export function checkContents({ name, files }: ModelContents, url: string): void {
  if (files.length > LIMITS.model_files_max) {
    const text = `model '${name}' in '${url}' has ${files.length} files, more than ${LIMITS.model_files_max}`;
    throw new NereidError('INVALID_ARG', text);
  }
  const isUnusable = (part: string) => part === '' || part === '.' || part === '..' || part.includes('\0');
  const wrong = files.find(({ path }) => path !== '' && path.split('/').some(isUnusable));
  if (wrong !== undefined) {
    const text = `the key '${wrong.object.key}' of model '${name}' in '${url}' cannot be the path of a file: rename it`;
    throw new NereidError('INVALID_ARG', text);
  }
}
