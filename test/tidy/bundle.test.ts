import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { buildInputs } from '../../deploy/setup/build.mjs';
import { COMMAND_BUNDLE, ROOT } from '../../deploy/setup/checkout.mjs';

const manifest = JSON.parse(readFileSync(join(ROOT, 'packages/cli/package.json'), 'utf8'));

test.runIf(existsSync(COMMAND_BUNDLE)).each(Object.keys(manifest.dependencies))(
  '%s, which the bundle of the command leaves out, is found from there',
  (name) => {
    const folders = createRequire(COMMAND_BUNDLE).resolve.paths(name) ?? [];
    expect(folders.some((folder) => existsSync(join(folder, name, 'package.json')))).toBe(true);
  },
);

test('nothing that the build makes is among the files of which it is made, so a second one has nothing to do', () => {
  const inputs = buildInputs();
  expect(inputs.length).toBeGreaterThan(100);
  const { status, stdout } = spawnSync('git', ['check-ignore', '--stdin'], {
    cwd: ROOT,
    input: inputs.join('\n'),
    encoding: 'utf8',
  });
  expect(stdout).toBe('');
  // Git has looked, and found none.
  expect(status).toBe(1);
});
