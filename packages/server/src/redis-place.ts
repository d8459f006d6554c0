import { lstat, mkdtemp, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { NereidError } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import type { DataDirectory } from './data-directory.ts';
import type { ProcessIdentity } from './process-identity.ts';
import { writeWhole } from './write-whole.ts';

/** `reason` of the errors about the private Redis. */
export const EMBEDDED_REDIS = 'embedded_redis';

/** sockaddr_un.sun_path holds 108 bytes in Linux and 104 in BSD and macOS, with a NUL at the end. */
const SOCKET_PATH_BYTES_MAX = 103;
const SOCKET_NAME = 'redis.sock';
const SHORT_FOLDER = 'nereid-redis-';
const OTHERS_BITS = 0o077;
/** A longer log is set aside at a start, in place of the one before. */
const LOG_BYTES_MAX = 1_048_576;

/** Where the private Redis of a data directory has its files. */
export interface RedisPlace {
  /** Its working folder, with the append-only files. */
  readonly folder: string;
  readonly socket: string;
  readonly logFile: string;
  /** Says which process was started on this folder last. */
  readonly recordFile: string;
}

export interface RedisRecord {
  readonly process: ProcessIdentity;
  readonly socket: string;
}

/**
 * Sets the place up. The socket stands in the data directory; where that path is too long for a
 * socket, in a private folder among the temporary files, which the record names.
 */
export async function openRedisPlace(dataDirectory: DataDirectory, log: Log): Promise<RedisPlace> {
  const folder = await dataDirectory.folder('redis');
  const recordFile = join(folder, 'process');
  const logFile = join(folder, 'redis.log');
  if (((await statOf(logFile))?.size ?? 0) > LOG_BYTES_MAX) await rename(logFile, `${logFile}.1`);
  const place = { folder, logFile, recordFile };
  const socket = join(folder, SOCKET_NAME);
  if (fits(socket)) return { ...place, socket };

  const left = await readRecord(place);
  if (left !== undefined && (await isPrivateFolder(dirname(left.socket)))) return { ...place, socket: left.socket };
  const short = join(await mkdtemp(join(tmpdir(), SHORT_FOLDER)), SOCKET_NAME);
  if (!fits(short)) {
    await rmdir(dirname(short));
    throw new NereidError(
      'UNAVAILABLE',
      `the paths of ${folder} and of ${tmpdir()} are too long for a socket (${SOCKET_PATH_BYTES_MAX} bytes): name a shorter --data-dir, or TMPDIR`,
      { reason: EMBEDDED_REDIS },
    );
  }
  log.info(
    { socket: short },
    `the path of ${folder} is too long for a socket, so the private Redis listens on ${short}`,
  );
  return { ...place, socket: short };
}

/** Removes what means nothing once the Redis has ended in order; the data stay. */
export async function clearRedisPlace({ recordFile, socket }: RedisPlace): Promise<void> {
  await rm(socket, { force: true });
  if (dirname(socket) !== dirname(recordFile)) await rm(dirname(socket), { recursive: true, force: true });
  await rm(recordFile, { force: true });
}

export async function writeRecord({ recordFile }: Pick<RedisPlace, 'recordFile'>, record: RedisRecord): Promise<void> {
  await writeWhole(recordFile, `${record.process} ${record.socket}\n`);
}

/** Undefined where no Redis was started here, or the last one ended in order. */
export async function readRecord({ recordFile }: Pick<RedisPlace, 'recordFile'>): Promise<RedisRecord | undefined> {
  if ((await statOf(recordFile)) === undefined) return undefined;
  const [, process, socket] = /^(\d+\.[\d-]+\.[\da-f-]+) (\/.+)\n$/s.exec(await readFile(recordFile, 'utf8')) ?? [];
  return process === undefined || socket === undefined ? undefined : { process, socket };
}

function fits(path: string): boolean {
  return Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX;
}

async function statOf(file: string) {
  try {
    return await stat(file);
  } catch {
    return undefined;
  }
}

/** A folder of this user that nobody else can look into; no link to one. */
async function isPrivateFolder(folder: string): Promise<boolean> {
  try {
    const found = await lstat(folder);
    return found.isDirectory() && (found.mode & OTHERS_BITS) === 0 && found.uid === process.getuid?.();
  } catch {
    return false;
  }
}
