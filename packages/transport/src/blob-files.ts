/** Blobs as files in shared memory, for processes of one host (docs/protocol.md R29). */
import {
  closeSync,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statfsSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

/** What statfs says of a file system that is nothing but memory. */
const TMPFS_MAGIC = 0x01021994;
const RAMFS_MAGIC = 0x858458f6;
/** So much of the file system stays free for others: an eighth. */
const FREE_SHARE = 1 / 8;
const PRIVATE_FOLDER_MODE = 0o700;
const PRIVATE_FILE_MODE = 0o600;
const OTHERS_BITS = 0o077;
/** New at each boot, so that no two machines are taken for one. */
const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id';
/** A blob's file is named `<time to live in ms>-…`: whoever finds it knows when it is nobody's any more. */
const FILE_NAME = /^(\d+)-/;

/**
 * All calls are synchronous: they copy memory, as the kernel's sockets would, and one of them ends
 * before the message that names the blob leaves.
 */
export interface BlobFiles {
  /** Equal for the processes that see the same folder, and for no others. */
  readonly host: string;
  /** False where there is no room, or the folder is gone. */
  write(id: string, data: Uint8Array): boolean;
  /** Undefined where it is not there as a whole; `take` deletes it. */
  read(id: string, bytes: number, take: boolean): Uint8Array | undefined;
  exists(id: string): boolean;
  /** Its time to live begins anew. */
  renew(id: string): void;
  remove(id: string): void;
  /** Deletes what nobody has renewed for its time to live, of whatever process: the leftovers of the dead. */
  sweep(): void;
}

export type OpenedBlobFiles =
  | { readonly ok: true; readonly files: BlobFiles }
  | { readonly ok: false; readonly reason: string };

/**
 * The folder `nereid-<user>-<prefix>` within `parent`, made where it is not there yet. Not ok where that
 * is no place for blobs: not in memory, not writable, or another user's.
 * `wallMs` is the wall clock, by which files age.
 */
export function openBlobFiles(parent: string, prefix: string, wallMs: () => number): OpenedBlobFiles {
  const folder = join(parent, `nereid-${process.getuid?.() ?? 0}-${encodeURIComponent(prefix)}`);
  try {
    const { type } = statfsSync(parent);
    if (type !== TMPFS_MAGIC && type !== RAMFS_MAGIC) return { ok: false, reason: `${parent} is not on a tmpfs` };
    mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER_MODE });
    const found = lstatSync(folder);
    if (!found.isDirectory() || (found.mode & OTHERS_BITS) !== 0 || found.uid !== process.getuid?.()) {
      return { ok: false, reason: `${folder} is not a folder of this user alone` };
    }
    const host = `${readFileSync(BOOT_ID_FILE, 'utf8').trim()}/${found.dev}/${found.ino}`;
    const files = blobFiles(folder, host, wallMs);
    files.sweep();
    return { ok: true, files };
  } catch (error) {
    return { ok: false, reason: `${folder} cannot be used: ${error instanceof Error ? error.message : error}` };
  }
}

function blobFiles(folder: string, host: string, wallMs: () => number): BlobFiles {
  const pathOf = (id: string) => join(folder, id);

  const remove = (id: string) => attempt(() => unlinkSync(pathOf(id)));

  const hasRoom = (bytes: number) => {
    const { bavail, blocks, bsize } = statfsSync(folder);
    return (bavail - blocks * FREE_SHARE) * bsize >= bytes;
  };

  const readWhole = (id: string, bytes: number): Uint8Array | undefined => {
    const file = openSync(pathOf(id), 'r');
    try {
      if (fstatSync(file).size !== bytes) return undefined;
      // Not filled before it is read into, and a plain array as those of frames are.
      const data = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
      let end = 0;
      while (end < bytes) {
        const got = readSync(file, data, end, bytes - end, null);
        if (got === 0) return undefined;
        end += got;
      }
      return data;
    } finally {
      closeSync(file);
    }
  };

  return {
    host,
    write(id, data) {
      let file: number | undefined;
      try {
        if (!hasRoom(data.byteLength)) return false;
        file = openSync(pathOf(id), 'wx', PRIVATE_FILE_MODE);
        for (let end = 0; end < data.byteLength; ) end += writeSync(file, data, end);
        return true;
      } catch {
        // Full after all, or the folder was deleted: another place does.
        if (file !== undefined) remove(id);
        return false;
      } finally {
        if (file !== undefined) closeSync(file);
      }
    },
    read(id, bytes, take) {
      try {
        const data = readWhole(id, bytes);
        if (take) remove(id);
        return data;
      } catch {
        return undefined;
      }
    },
    exists: (id) => existsSync(pathOf(id)),
    renew(id) {
      const nowS = wallMs() / 1000;
      attempt(() => utimesSync(pathOf(id), nowS, nowS));
    },
    remove,
    sweep() {
      const nowMs = wallMs();
      for (const name of attempt(() => readdirSync(folder)) ?? []) {
        const ttlMs = Number(FILE_NAME.exec(name)?.[1] ?? Number.NaN);
        const writtenMs = attempt(() => statSync(pathOf(name)).mtimeMs);
        if (writtenMs !== undefined && nowMs - writtenMs > ttlMs) remove(name);
      }
    },
  };
}

/** Undefined where the file is gone: another process may delete any at any time. */
function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}
