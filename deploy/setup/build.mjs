import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, ROOT_BIN } from './checkout.mjs';
import { runCommand, SetupError } from './command.mjs';
import { step } from './progress.mjs';
import { filesBelow, hashOf, isStamped, packageFolders, writeStamp } from './stamp.mjs';

const DETAIL_LINES_MAX = 40;

/**
 * Compiles all packages. `tsc -b` over the project references does in one process what turbo does in eleven, and
 * compiles only what has changed.
 */
export async function ensureBuild() {
  const folders = packageFolders();
  const isSource = (file) => !file.endsWith('.test.ts');
  const files = [
    join(ROOT, 'tsconfig.base.json'),
    join(ROOT, 'tsconfig.json'),
    ...folders.flatMap((folder) => [join(folder, 'package.json'), join(folder, 'tsconfig.json')]),
    ...folders.flatMap((folder) => filesBelow(join(folder, 'src'), isSource)),
  ].filter(existsSync);
  const lockfile = readFileSync(join(ROOT, 'pnpm-lock.yaml'), 'utf8');
  const key = hashOf({ texts: [lockfile], files });
  const outputs = folders.filter((folder) => existsSync(join(folder, 'src'))).map((folder) => join(folder, 'dist'));
  if (isStamped('build', key) && outputs.every((folder) => existsSync(join(folder, '.tsbuildinfo')))) return;
  await step('building', async () => {
    const { code, output } = await runCommand(join(ROOT_BIN, 'tsc'), ['-b'], { log: 'build' });
    if (code === 0) return;
    const detail = output.trimEnd().split('\n').slice(0, DETAIL_LINES_MAX).join('\n');
    throw new SetupError('the build failed: correct what the compiler names above and run again', { detail });
  });
  writeStamp('build', key);
}
