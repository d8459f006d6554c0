import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ensureBuild } from './build.mjs';
import { setting } from './checkout.mjs';
import { SetupError } from './command.mjs';
import { withSetupLock } from './lock.mjs';
import { say, secondsSince } from './progress.mjs';
import { ensureRedis } from './redis.mjs';
import { ensureSamples } from './samples.mjs';
import { checkNodeVersion, ensureDependencies, ensureGpuLibraries, ensurePnpm } from './tools.mjs';

/**
 * Makes this checkout ready to run. Each step looks first whether it has anything to do, so that a second call takes
 * a fraction of a second. Throws SetupError where the server could not run.
 *
 * @param {{ mayInstall?: boolean, again?: boolean }} options `mayInstall`: the system's package manager may be used;
 *   `again`: try once more what failed before and is not needed
 */
export async function setUp({ mayInstall = setting('CI') === 'true', again = false } = {}) {
  checkNodeVersion();
  await withSetupLock(async () => {
    // The downloads of the samples and of Redis wait for the network, so they go on beside the rest.
    const installed = ensurePnpm().then(ensureDependencies);
    const outcomes = await Promise.allSettled([
      (async () => {
        await installed;
        await ensureGpuLibraries({ again });
        await ensureBuild();
      })(),
      (async () => {
        await ensureSamples(installed);
        await ensureRedis({ mayInstall });
      })(),
    ]);
    const failed = outcomes.find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  });
}

/** Ends the process with the one line and the exit code of a failure. */
export function exitWith(error) {
  if (!(error instanceof SetupError)) throw error;
  if (error.detail) console.error(error.detail);
  console.error(`set-up: ${error.message}`);
  process.exit(error.exitCode);
}

/** Whether this module is the program that was started. */
export function isMain(moduleUrl) {
  return process.argv[1] !== undefined && realpathSync(process.argv[1]) === realpathSync(fileURLToPath(moduleUrl));
}

if (isMain(import.meta.url)) {
  const start = performance.now();
  const yes = process.argv.includes('--yes');
  try {
    await setUp({ again: true, ...(yes ? { mayInstall: true } : {}) });
    say(`ready (${secondsSince(start)})`);
  } catch (error) {
    exitWith(error);
  }
}
