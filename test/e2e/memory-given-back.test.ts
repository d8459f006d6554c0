import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeLargeModel } from '../bench/models/large.mjs';
import { runScript } from '../command.mjs';

const SCRIPT = fileURLToPath(new URL('../bench/memory-cycles.mjs', import.meta.url));
/** What `bin/nereid` sets: the command is started without it in these tests. */
const ENVIRONMENT = { MALLOC_MMAP_THRESHOLD_: '1048576', MALLOC_TRIM_THRESHOLD_: '1048576' };
/** Loads and unloads after the first. */
const MORE = 10;
const ABOVE_FIRST_MAX = 1.15;
const MIB = 2 ** 20;
const LIMIT_MS = 180_000;

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-memory-'));
  writeLargeModel(folder, 'large', 'thread');
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

test.skipIf(process.platform !== 'linux')(
  'a model of 200 MB that is loaded and unloaded again and again leaves memory as its first unload left it',
  async () => {
    const { code, output } = await runScript(SCRIPT, [folder, 'large', String(1 + MORE)], ENVIRONMENT).ended;
    expect(code, output).toBe(0);
    const [first = 0, ...later] = output.trim().split('\n').map(Number);
    expect(later).toHaveLength(MORE);
    const mib = (bytes: number) => Math.round(bytes / MIB);
    expect(Math.max(...later), `MiB behind each unload: ${[first, ...later].map(mib)}`).toBeLessThanOrEqual(
      first * ABOVE_FIRST_MAX,
    );
  },
  LIMIT_MS,
);
