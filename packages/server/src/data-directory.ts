import { chmod, mkdir, readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { NereidError } from '@nereid/protocol';
import { takeLock } from './directory-lock.ts';
import { writeWhole } from './write-whole.ts';

/** `reason` of the errors about a data directory. */
export const DATA_DIRECTORY = 'data_directory';

/** Of the folder's layout. A start refuses a newer one. */
const FORMAT = 1;
const VERSION_FILE = 'VERSION';
const LOCK_FOLDER = 'lock';
/** What may stand there without a VERSION: a start that was killed, or the root of a mounted volume. */
const OWN_NAMES: ReadonlySet<string> = new Set([LOCK_FOLDER, 'lost+found']);
const PRIVATE_MODE = 0o700;
const OTHERS_BITS = 0o077;

/** The folder of what this process keeps; it alone uses it until `close`. */
export interface DataDirectory {
  /** Absolute, without links. */
  readonly path: string;
  /** A folder of that name in it, private to this user; made where it is not there. */
  folder(name: string): Promise<string>;
  /** Lets another process have it. Idempotent. */
  close(): Promise<void>;
}

/**
 * Opens the data directory, made private to this user where it is not there yet. Each step is whole
 * or not done, so that a kill at any time leaves a folder that opens. Throws UNAVAILABLE, with what
 * to do: another process has it, a newer version wrote it, it is some other folder, or cannot be used.
 */
export async function openDataDirectory(given: string): Promise<DataDirectory> {
  try {
    return await openAt(given);
  } catch (failure) {
    if (failure instanceof NereidError) throw failure;
    const why = failure instanceof Error ? failure.message : String(failure);
    throw unusable(`the data directory ${resolve(given)} cannot be used: ${why}; name another by --data-dir`, failure);
  }
}

async function openAt(given: string): Promise<DataDirectory> {
  await mkdir(given, { recursive: true, mode: PRIVATE_MODE });
  const path = await realpath(given);
  await checkIsOurs(path);
  await makePrivate(path);
  const lock = await takeLock(join(path, LOCK_FOLDER));
  if (!lock.ok) throw unusable(takenText(path, lock.pid));
  try {
    // Again, now that no other process can be writing it.
    if ((await readFormat(path)) === undefined) await writeWhole(join(path, VERSION_FILE), `${FORMAT}\n`);
  } catch (failure) {
    await lock.release();
    throw failure;
  }
  return {
    path,
    async folder(name) {
      const folder = join(path, name);
      await mkdir(folder, { recursive: true, mode: PRIVATE_MODE });
      return folder;
    },
    close: lock.release,
  };
}

function takenText(path: string, pid: number): string {
  const who = pid === process.pid ? 'this process itself' : `the process ${pid}`;
  return `${who} already uses the data directory ${path}: stop it, or name another by --data-dir`;
}

/** Throws for the folder of a newer version, and for one that holds other things: it may be anything of the user's. */
async function checkIsOurs(path: string): Promise<void> {
  if ((await readFormat(path)) !== undefined) return;
  const foreign = (await readdir(path)).find((name) => !OWN_NAMES.has(name) && !name.startsWith(`${VERSION_FILE}.`));
  if (foreign === undefined) return;
  throw unusable(
    `${path} is no data directory of Nereid (it holds ${foreign} and no ${VERSION_FILE}): name a new or an empty folder by --data-dir`,
  );
}

/** The format that VERSION names; undefined without that file. */
async function readFormat(path: string): Promise<number | undefined> {
  const file = join(path, VERSION_FILE);
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (failure) {
    if (failure instanceof Error && 'code' in failure && failure.code === 'ENOENT') return undefined;
    throw failure;
  }
  const format = /^[1-9]\d{0,8}\s*$/.test(text) ? Number(text) : undefined;
  if (format === undefined) throw unusable(`${file} holds no version number: name another folder by --data-dir`);
  if (format > FORMAT) {
    throw unusable(
      `a newer Nereid wrote the data directory ${path} (format ${format}, this one reads ${FORMAT}): start that version, or name another by --data-dir`,
    );
  }
  return format;
}

/** Only of what this user owns: a mounted volume may be another's, and the folders in it are private by themselves. */
async function makePrivate(path: string): Promise<void> {
  const { mode, uid } = await stat(path);
  if ((mode & OTHERS_BITS) !== 0 && uid === process.getuid?.()) await chmod(path, PRIVATE_MODE);
}

function unusable(text: string, cause?: unknown): NereidError {
  return new NereidError('UNAVAILABLE', text, { reason: DATA_DIRECTORY, cause });
}
