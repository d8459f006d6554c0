/**
 * Loaded into a process before its own code (node --import): at SIGUSR2 it collects garbage, then writes what memory it
 * holds into the folder MEMORY_HOOK_FOLDER, in a file of its process id.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

const COLLECTIONS = 4;
const PAUSE_MS = 20;

if (isMainThread) {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  process.on('SIGUSR2', async () => {
    // What ended last is collected once what looked at it has run.
    for (let turn = 0; turn < COLLECTIONS; turn += 1) {
      await delay(PAUSE_MS);
      collect();
    }
    const file = join(process.env.MEMORY_HOOK_FOLDER, String(process.pid));
    writeFileSync(`${file}.new`, JSON.stringify(process.memoryUsage()));
    renameSync(`${file}.new`, file);
  });
}
