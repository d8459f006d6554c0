import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';

export interface RedisBinary {
  readonly file: string;
  /** As people say it, e.g. `Redis 7.0.15`. */
  readonly version: string;
}

export type FoundBinary =
  | { readonly ok: true; readonly binary: RedisBinary }
  | { readonly ok: false; readonly hint: string };

const NAMES = ['redis-server', 'valkey-server'];
/** First versions that do: BLMPOP and what the scripts need. By the name that the program gives itself. */
const MINIMUM: Readonly<Record<string, readonly [major: number, minor: number]>> = { Redis: [7, 0], Valkey: [7, 2] };
const VERSION_TIMEOUT_MS = 5_000;

const INSTALL =
  'install Redis 7.0 or Valkey 7.2, or later (`apt-get install redis-server`, `dnf install valkey`, `apk add redis` or `brew install redis`), or name a running one by --redis-url';

/**
 * The first redis-server or valkey-server of `searchPath` (as in PATH) that is new enough; else one
 * line that says what was found and how to install one.
 */
export async function findRedisBinary(searchPath: string): Promise<FoundBinary> {
  const unfit: string[] = [];
  for (const file of await programs(searchPath)) {
    const found = await readVersion(file);
    if (found === undefined) {
      unfit.push(`${file} does not tell its version`);
    } else if (isNewEnough(found)) {
      return { ok: true, binary: { file, version: `${found.name} ${found.version}` } };
    } else {
      unfit.push(`${file} is ${found.name} ${found.version}`);
    }
  }
  const why = unfit.length > 0 ? unfit.join(', ') : `no ${NAMES.join(' or ')} on PATH`;
  return { ok: false, hint: `${why}: ${INSTALL}` };
}

async function programs(searchPath: string): Promise<readonly string[]> {
  // A relative folder would mean another program after each change of the working folder.
  const folders = searchPath.split(delimiter).filter(isAbsolute);
  const files = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  const runnable = await Promise.all(files.map(isRunnable));
  return files.filter((_, index) => runnable[index] === true);
}

async function isRunnable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

interface Version {
  readonly name: string;
  readonly version: string;
  readonly major: number;
  readonly minor: number;
}

/** From `Redis server v=7.0.15 sha=…` or `Valkey server v=8.1.8 sha=…`, whatever the file's name. */
async function readVersion(file: string): Promise<Version | undefined> {
  let output: string;
  try {
    ({ stdout: output } = await promisify(execFile)(file, ['--version'], { timeout: VERSION_TIMEOUT_MS }));
  } catch {
    return undefined;
  }
  const [, name, version, major, minor] = /^(\w+) server v=((\d+)\.(\d+)[\w.-]*)/i.exec(output) ?? [];
  if (name === undefined || version === undefined) return undefined;
  return { name, version, major: Number(major), minor: Number(minor) };
}

function isNewEnough({ name, major, minor }: Version): boolean {
  const [majorMin, minorMin] = MINIMUM[name] ?? [Number.POSITIVE_INFINITY, 0];
  return major > majorMin || (major === majorMin && minor >= minorMin);
}
