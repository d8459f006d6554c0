import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CACHE, ROOT } from './checkout.mjs';

// A stamp holds the hash of all inputs of a step that has succeeded: same inputs, nothing to do.

const stampFile = (name) => join(CACHE, 'stamps', name);

/** Whether the step `name` has already succeeded with these inputs. */
export function isStamped(name, key) {
  try {
    return readFileSync(stampFile(name), 'utf8') === key;
  } catch {
    return false;
  }
}

export function writeStamp(name, key) {
  mkdirSync(join(CACHE, 'stamps'), { recursive: true });
  writeFileSync(stampFile(name), key);
}

/** The step has to be done again, whatever its inputs: what it made is gone. */
export function removeStamp(name) {
  rmSync(stampFile(name), { force: true });
}

/** One hash over texts and the names and contents of files. */
export function hashOf({ texts = [], files = [] }) {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(`${text}\0`);
  for (const file of files)
    hash
      .update(`${relative(ROOT, file)}\0`)
      .update(readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

/** All files below a folder, sorted; [] where there is no such folder. */
export function filesBelow(folder, accept = () => true) {
  try {
    return readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
      .filter(accept)
      .sort();
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/** The folders of the workspace's packages. */
export function packageFolders() {
  return readdirSync(join(ROOT, 'packages'))
    .sort()
    .map((name) => join(ROOT, 'packages', name));
}
