import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDataDirectory } from './data-directory.ts';
import { processIdentity } from './process-identity.ts';

let root: string;
let path: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'nereid-data-')));
  path = join(root, 'data');
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(root, { recursive: true, force: true });
});

/** A process that does nothing until it is killed. */
async function startProcess(): Promise<ChildProcess & { readonly pid: number }> {
  const child = spawn('sleep', ['600'], { stdio: 'ignore' });
  await once(child, 'spawn');
  children.push(child);
  if (child.pid === undefined) throw new Error('no pid');
  return Object.assign(child, { pid: child.pid });
}

/** As a server of that identity would, before this one. */
async function putClaim(identity: string, atMs = Date.now() - 1_000): Promise<void> {
  await mkdir(join(path, 'lock'), { recursive: true });
  await writeFile(join(path, 'lock', `${String(atMs).padStart(14, '0')}.${identity}.00ff00ff`), '');
}

const claims = () => readdir(join(path, 'lock'));
const mode = async (file: string) => (await stat(file)).mode & 0o777;
const refusal = (given: string) =>
  openDataDirectory(given).then(
    () => 'opened',
    (failure: Error) => failure.message,
  );

it('is made private, with a VERSION, and opens again after close', async () => {
  const first = await openDataDirectory(path);
  expect(first.path).toBe(path);
  expect(await mode(path)).toBe(0o700);
  expect(await mode(await first.folder('redis'))).toBe(0o700);
  expect(await readFile(join(path, 'VERSION'), 'utf8')).toBe('1\n');
  expect(await claims()).toHaveLength(1);
  await first.close();
  await first.close();
  expect(await claims()).toEqual([]);
  await (await openDataDirectory(path)).close();
});

it('an empty folder that others can read is made private', async () => {
  await mkdir(path);
  await chmod(path, 0o755);
  await (await openDataDirectory(path)).close();
  expect(await mode(path)).toBe(0o700);
});

describe('the lock', () => {
  it('of this process is named', async () => {
    const held = await openDataDirectory(path);
    const link = join(root, 'link');
    await symlink(path, link);
    const text = `this process itself already uses the data directory ${path}: stop it, or name another by --data-dir`;
    expect(await refusal(path)).toBe(text);
    expect(await refusal(link)).toBe(text);
    await held.close();
    expect(await refusal(link)).toBe('opened');
  });

  it('of another process is named by its pid, and taken over once that is dead', async () => {
    const other = await startProcess();
    await putClaim(processIdentity(other.pid) ?? '');
    expect(await refusal(path)).toBe(
      `the process ${other.pid} already uses the data directory ${path}: stop it, or name another by --data-dir`,
    );
    const exit = once(other, 'exit');
    other.kill('SIGKILL');
    await exit;
    expect(await refusal(path)).toBe('opened');
    expect(await claims()).toEqual([expect.stringContaining(`.${process.pid}.`)]);
  });

  it.each<[string, (identity: string) => string]>([
    ['started at another time', (identity) => identity.replace(/\.(\d+)\./, (_, start) => `.${Number(start) - 1}.`)],
    ['of another boot', (identity) => identity.replace(/\.[\da-f]+$/, '.00000000')],
  ])('of a dead process is taken over where its pid is now that of one %s', async (_why, changed) => {
    const other = await startProcess();
    const identity = processIdentity(other.pid) ?? '';
    await putClaim(changed(identity));
    expect(changed(identity)).not.toBe(identity);
    expect(await refusal(path)).toBe('opened');
    expect(await claims()).toHaveLength(1);
  });

  it('of a pid whose start nobody knows holds while any process has that pid', async () => {
    const other = await startProcess();
    await putClaim(`${other.pid}.-.-`);
    expect(await refusal(path)).toContain(`the process ${other.pid} already uses`);
  });

  it('holds also where the clock was set back since', async () => {
    const other = await startProcess();
    await putClaim(processIdentity(other.pid) ?? '', Date.now() + 3_600_000);
    expect(await refusal(path)).toContain(`the process ${other.pid} already uses`);
  });

  it('is taken once by many at the same time', async () => {
    for (let round = 0; round < 20; round++) {
      const results = await Promise.allSettled(Array.from({ length: 5 }, () => openDataDirectory(path)));
      const opened = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      expect(opened).toHaveLength(1);
      expect(await claims()).toHaveLength(1);
      await opened[0]?.close();
    }
  });
});

describe('what a killed start leaves', () => {
  it.each<[string, () => Promise<void>]>([
    ['the folder alone', () => mkdir(path).then(() => {})],
    ['a lock and no VERSION', () => putClaim('4194305.1.00000000')],
    [
      'half of a VERSION under its first name',
      async () => {
        await putClaim('4194305.1.00000000');
        await writeFile(join(path, 'VERSION.0a0b0c0d'), '');
      },
    ],
  ])('%s: opens', async (_what, leave) => {
    await leave();
    expect(await refusal(path)).toBe('opened');
    expect(await readFile(join(path, 'VERSION'), 'utf8')).toBe('1\n');
  });
});

describe('refused', () => {
  it('a newer format, untouched', async () => {
    await mkdir(path);
    await writeFile(join(path, 'VERSION'), '2\n');
    expect(await refusal(path)).toBe(
      `a newer Nereid wrote the data directory ${path} (format 2, this one reads 1): start that version, or name another by --data-dir`,
    );
    expect(await readdir(path)).toEqual(['VERSION']);
  });

  it('a VERSION that is none', async () => {
    await mkdir(path);
    await writeFile(join(path, 'VERSION'), 'one');
    expect(await refusal(path)).toBe(`${path}/VERSION holds no version number: name another folder by --data-dir`);
  });

  it('a folder of other things, whose mode stays', async () => {
    await mkdir(path);
    await chmod(path, 0o755);
    await writeFile(join(path, 'thesis.tex'), '');
    expect(await refusal(path)).toBe(
      `${path} is no data directory of Nereid (it holds thesis.tex and no VERSION): name a new or an empty folder by --data-dir`,
    );
    expect(await mode(path)).toBe(0o755);
  });

  it('a file', async () => {
    await writeFile(path, '');
    expect(await refusal(path)).toMatch(
      new RegExp(`^the data directory ${path} cannot be used: EEXIST: .*; name another by --data-dir$`),
    );
  });
});
