import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMMAND_BUNDLE, ROOT, ROOT_BIN } from './checkout.mjs';
import { runCommand, SetupError } from './command.mjs';
import { step } from './progress.mjs';
import { filesBelow, hashOf, isStamped, packageFolders, writeStamp } from './stamp.mjs';

const DETAIL_LINES_MAX = 40;
const BUNDLER = join(ROOT, 'packages', 'cli', 'bundle.mjs');

/**
 * Compiles all packages and bundles the command. `tsc -b` over the project references does in one process what turbo
 * does in eleven, and compiles only what has changed.
 */
export async function ensureBuild() {
  const folders = packageFolders();
  const files = buildInputs();
  const lockfile = readFileSync(join(ROOT, 'pnpm-lock.yaml'), 'utf8');
  const key = hashOf({ texts: [lockfile], files });
  const outputs = folders.filter((folder) => existsSync(join(folder, 'src'))).map((folder) => join(folder, 'dist'));
  const isBuilt = outputs.every((folder) => existsSync(join(folder, '.tsbuildinfo'))) && existsSync(COMMAND_BUNDLE);
  if (isStamped('build', key) && isBuilt) return;
  await step('building', async () => {
    await build(join(ROOT_BIN, 'tsc'), ['-b'], 'correct what the compiler names above and run again');
    await build(process.execPath, [BUNDLER], 'the bundler says above what it could not do');
  });
  writeStamp('build', key);
}

/** All files of which the build is made, none of which it makes. */
export function buildInputs() {
  const folders = packageFolders();
  const isSource = (file) => !file.endsWith('.test.ts');
  return [
    join(ROOT, 'tsconfig.base.json'),
    join(ROOT, 'tsconfig.json'),
    ...folders.flatMap((folder) => [join(folder, 'package.json'), join(folder, 'tsconfig.json')]),
    ...folders.flatMap((folder) => filesBelow(join(folder, 'src'), isSource)),
    ...filesBelow(join(ROOT, 'packages', 'gateway', 'assets')),
    BUNDLER,
  ].filter(existsSync);
}

async function build(program, args, fix) {
  const { code, output } = await runCommand(program, args, { log: 'build' });
  if (code === 0) return;
  const detail = output.trimEnd().split('\n').slice(0, DETAIL_LINES_MAX).join('\n');
  throw new SetupError(`the build failed: ${fix}`, { detail });
}
