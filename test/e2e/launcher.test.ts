import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COMMAND, commandFile } from '../../deploy/setup/checkout.mjs';
import { eventually } from './metrics.ts';

const THRESHOLD = '1048576';
const JEMALLOC = ['/lib', '/usr/lib', '/usr/lib64', '/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'].some(
  (folder) => existsSync(join(folder, 'libjemalloc.so.2')),
);

interface Started {
  readonly pid: number;
  readonly kill: (signal: NodeJS.Signals) => void;
  readonly output: () => string;
  readonly ended: Promise<number | string>;
}

describe.skipIf(process.platform !== 'linux')('the command as it is installed', () => {
  let folder: string;
  /** Beside what was built last, as in a package. */
  let installed: string;
  let repository: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'nereid-launcher-'));
    for (const name of ['package/bin', 'package/bundle', 'bin', 'models'])
      mkdirSync(join(folder, name), { recursive: true });
    installed = join(folder, 'package/bin/nereid');
    copyFileSync(COMMAND, installed);
    symlinkSync(commandFile(), join(folder, 'package/bundle/nereid.js'));
    symlinkSync('../package/bin/nereid', join(folder, 'bin/nereid'));
    repository = join(folder, 'models');
  });
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  function start(file: string, args: readonly string[], env: Record<string, string> = {}): Started {
    const child = spawn(file, args, { cwd: folder, env: { ...process.env, NO_COLOR: '1', ...env } });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
    const ended = once(child, 'close').then(([code, signal]) => code ?? signal);
    return { pid: child.pid ?? 0, kill: (signal) => child.kill(signal), output: () => text, ended };
  }

  const serve = (...flags: string[]) => [
    'serve',
    `--model-repository=${repository}`,
    ...['http', 'grpc', 'metrics'].map((port) => `--${port}-port=0`),
    ...flags,
  ];
  const environmentOf = (pid: number) => readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');

  test.each([
    ['by its file', {}, () => installed],
    // What the caller has set stays.
    ['by a link, as a package manager makes it', { MALLOC_TRIM_THRESHOLD_: '4096' }, () => join(folder, 'bin/nereid')],
  ])('%s it is one process, with the thresholds of malloc, and signals are its own', async (_, env, file) => {
    const server = start(file(), serve(), env);
    await eventually('it has started', async () => server.output().includes('Started HTTPService'));
    expect(readFileSync(`/proc/${server.pid}/cmdline`, 'utf8').split('\0').slice(0, 3)).toEqual([
      'node',
      expect.stringMatching(/bundle\/nereid\.js$/),
      'serve',
    ]);
    expect(environmentOf(server.pid)).toEqual(
      expect.arrayContaining([
        `MALLOC_MMAP_THRESHOLD_=${THRESHOLD}`,
        `MALLOC_TRIM_THRESHOLD_=${'MALLOC_TRIM_THRESHOLD_' in env ? '4096' : THRESHOLD}`,
      ]),
    );
    server.kill('SIGTERM');
    expect(await server.ended).toBe(0);
  });

  test('a library of malloc that is there is loaded before anything else; another says what to install', async () => {
    const byFlag = start(installed, serve('--malloc', 'jemalloc'), { NEREID_MALLOC: 'tcmalloc' });
    if (!JEMALLOC) {
      expect(await byFlag.ended).toBe(2);
      expect(byFlag.output()).toMatch(/^nereid serve: --malloc=jemalloc needs .* install libjemalloc2/);
      return;
    }
    await eventually('it has started', async () => byFlag.output().includes('Started HTTPService'));
    expect(readFileSync(`/proc/${byFlag.pid}/maps`, 'utf8')).toContain('libjemalloc');
    byFlag.kill('SIGINT');
    expect(await byFlag.ended).toBe(0);
  });

  test('started without it, the library is missing: told before anything is served', async () => {
    const server = start(process.execPath, [commandFile(), ...serve('--malloc=jemalloc')]);
    expect(await server.ended).toBe(2);
    expect(server.output()).toMatch(
      /^nereid serve: --malloc=jemalloc needs .*libjemalloc\.so\.2.* install libjemalloc2/,
    );
  });
});
