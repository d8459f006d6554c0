/** Reading a model's own files: texts beside the config, labels, and the hash over everything. */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { isAbsolute, join, posix, relative, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { NereidError } from '@nereid/protocol';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { isIgnoredName } from './ignored-names.ts';
import { LIMITS } from './limits.ts';
import { unreadable } from './repository.ts';

/** A path below `directory`. Throws INVALID_ARG where the config names one outside it; `field` is in the text, `path` is the field's. */
export function pathInside(directory: string, name: string, field: string, fieldPath: string = field): string {
  const path = join(directory, name);
  const below = relative(directory, path);
  if (below === '' || isAbsolute(name) || isAbsolute(below) || below === '..' || below.startsWith(`..${sep}`)) {
    throw new NereidError('INVALID_ARG', `${field} '${name}' must name a file inside '${directory}'`, {
      field: fieldPath,
    });
  }
  return path;
}

/** Throws where it is no regular file: opening a pipe would wait for a writer. */
async function fileSize(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isFile()) throw new NereidError('INVALID_ARG', `'${path}' is not a regular file`);
  return found.size;
}

/** A text file. Throws with Triton's words where it cannot be read (core's filesystem/local.h). */
export async function readModelText(path: string, bytesMax: number, field?: string): Promise<string> {
  const named = field === undefined ? {} : { field };
  let size: number;
  let text: string;
  try {
    size = await fileSize(path);
    text = size > bytesMax ? '' : await readFile(path, 'utf8');
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    const reason = missing ? 'No such file or directory' : error instanceof Error ? error.message : String(error);
    throw new NereidError('INTERNAL', `failed to open text file for read ${path}: ${reason}`, {
      cause: error,
      ...named,
    });
  }
  if (size > bytesMax) {
    throw new NereidError('INVALID_ARG', `${path} has ${size} bytes, more than ${bytesMax}`, named);
  }
  return text;
}

/** Class labels by output: a line each of the file that `label_filename` names. */
export async function readLabels(config: ModelConfig, directory: string): Promise<Record<string, string[]>> {
  const labels: Record<string, string[]> = {};
  for (const [index, output] of config.output.entries()) {
    if (output.labelFilename === '') continue;
    const field = `output[${index}].label_filename`;
    const path = pathInside(directory, output.labelFilename, 'label_filename', field);
    const lines = (await readModelText(path, LIMITS.labels_bytes_max, field)).split('\n');
    // A line ends with a newline; there is none after the last.
    if (lines.at(-1) === '') lines.pop();
    labels[output.name] = lines.map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  }
  return labels;
}

/** Which files of a model's folder count. */
export interface HashedFiles {
  readonly directory: string;
  /** Null for none. */
  readonly configFile: string | null;
  /** Given in place of the file. */
  readonly configText?: string | undefined;
  /** Those beside the versions: labels, initial states, warm-up data, strategies. */
  readonly beside: readonly string[];
  readonly versions: readonly string[];
}

/**
 * SHA-256 in hex over relative path, size and contents of the files of a model that stand beside its versions and of all
 * files of the given versions; without the config (`filesHash`), and with it. Equal on two machines exactly where what is
 * served is equal. Files are streamed.
 */
export async function hashModelFiles({
  directory,
  configFile,
  configText,
  beside,
  versions,
}: HashedFiles): Promise<{ contentHash: string; filesHash: string }> {
  const files = [...new Set(beside)].sort();
  for (const version of versions) {
    const found: string[] = [];
    await collectFiles(directory, version, 0, found);
    files.push(...found.sort());
  }
  const hash = createHash('sha256');
  for (const file of files) await hashFile(hash, directory, file);
  const filesHash = hash.copy().digest('hex');
  if (configFile !== null) await hashFile(hash, directory, configFile);
  if (configText !== undefined) hash.update(`config:${configText}`);
  return { contentHash: hash.digest('hex'), filesHash };
}

async function collectFiles(directory: string, folder: string, depth: number, found: string[]): Promise<void> {
  const { version_folder_depth_max: depthMax, files_per_version_max: filesMax } = LIMITS;
  if (depth > depthMax || found.length > filesMax) {
    const bounds = `${depthMax} folders deep or ${filesMax} files`;
    throw new NereidError('INVALID_ARG', `'${join(directory, folder)}' is more than ${bounds}`);
  }
  try {
    for (const name of await readdir(join(directory, folder))) {
      if (isIgnoredName(name)) continue;
      const file = posix.join(folder, name);
      if ((await stat(join(directory, file))).isDirectory()) await collectFiles(directory, file, depth + 1, found);
      else found.push(file);
    }
  } catch (error) {
    throw error instanceof NereidError ? error : unreadable('version folder', join(directory, folder), error);
  }
}

async function hashFile(hash: Hash, directory: string, file: string): Promise<void> {
  const path = join(directory, file);
  try {
    const size = await fileSize(path);
    hash.update(`${Buffer.byteLength(file)}:${file}:${size}:`);
    await pipeline(createReadStream(path), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) hash.update(chunk);
    });
  } catch (error) {
    throw unreadable('model file', path, error);
  }
}
