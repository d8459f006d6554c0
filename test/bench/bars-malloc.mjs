/** Resident memory behind loads and unloads of a model of 200 MB, with each malloc. */
import { spawn } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { writeLargeModel } from './models/large.mjs';

const SCRIPT = fileURLToPath(new URL('./memory-cycles.mjs', import.meta.url));
const CYCLES = 20;
/** jemalloc gives back what it has not used for a second. */
const SETTLE_MS = 1_500;
const ABOVE_FIRST_MAX = 1.15;
const MIB = 2 ** 20;
const NOT_THERE = /cannot be preloaded/;

/** As `packages/cli/bin/nereid` sets them; `glibc` is what a program without it has. */
const THRESHOLDS = 'default';
const MALLOCS = {
  glibc: {},
  [THRESHOLDS]: { MALLOC_MMAP_THRESHOLD_: '1048576', MALLOC_TRIM_THRESHOLD_: '1048576' },
  jemalloc: {
    LD_PRELOAD: 'libjemalloc.so.2',
    MALLOC_CONF: 'background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0',
  },
  tcmalloc: { LD_PRELOAD: 'libtcmalloc_minimal.so.4', TCMALLOC_AGGRESSIVE_DECOMMIT: 't' },
};

/** After an unload resident memory is within 15 % of what it was after the first, for 19 more; a line of the table each. */
export async function mallocBar({ folder, say }) {
  const bars = [];
  for (const carrier of ['thread', 'process']) {
    const repository = join(folder, carrier);
    writeLargeModel(repository, 'large', carrier);
    for (const [name, environment] of Object.entries(MALLOCS)) {
      const bytes = await residentBytes(repository, environment);
      if (bytes === undefined) {
        say(`  ${carrier}, ${name}: its library is not installed`);
        continue;
      }
      const [first, ...later] = bytes.map((each) => Math.round(each / MIB));
      const load = loadavg()[0].toFixed(1);
      say(`  ${carrier}, ${name}: ${[first, ...later].join(' ')} MiB (load average ${load})`);
      if (name !== THRESHOLDS) continue;
      const most = Math.max(...later) / first;
      const what = `memory behind ${CYCLES} unloads of 200 MB, by ${carrier}: the most over the first`;
      bars.push({ what, figure: most.toFixed(3), bar: `at most ${ABOVE_FIRST_MAX}`, holds: most <= ABOVE_FIRST_MAX });
    }
  }
  return bars;
}

/** Behind each unload; undefined where a library is not there. */
async function residentBytes(repository, environment) {
  const child = spawn(process.execPath, [SCRIPT, repository, 'large', String(CYCLES), String(SETTLE_MS)], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise((resolve) => {
    child.once('close', resolve);
  });
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (NOT_THERE.test(errors)) return undefined;
  if (code !== 0) throw new Error(`${SCRIPT} ended with ${code}:\n${errors}`);
  return output.trim().split('\n').map(Number);
}
