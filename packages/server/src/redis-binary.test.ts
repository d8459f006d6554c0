import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { findRedisBinary } from './redis-binary.ts';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'nereid-binary-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** A program that says so of itself. */
async function put(folder: string, name: string, says: string, mode = 0o755): Promise<string> {
  await mkdir(join(root, folder), { recursive: true });
  const file = join(root, folder, name);
  await writeFile(file, `#!/bin/sh\necho '${says}'\n`);
  await chmod(file, mode);
  return file;
}

const find = (...folders: string[]) => findRedisBinary(folders.map((folder) => join(root, folder)).join(delimiter));
const says = (name: string, version: string) => `${name} server v=${version} sha=00000000:0 malloc=jemalloc bits=64`;

it.each<[string, string, string, boolean]>([
  ['redis-server', 'Redis', '7.0.0', true],
  ['redis-server', 'Redis', '7.0.15', true],
  ['redis-server', 'Redis', '10.0.1', true],
  ['redis-server', 'Redis', '6.2.14', false],
  ['valkey-server', 'Valkey', '7.2.0', true],
  ['valkey-server', 'Valkey', '8.1.8', true],
  ['valkey-server', 'Valkey', '7.1.9', false],
  ['redis-server', 'Valkey', '8.0.1', true],
  ['redis-server', 'Other', '9.0.0', false],
])('%s that is %s %s: %s', async (file, name, version, fits) => {
  const path = await put('a', file, says(name, version));
  const found = await find('a');
  if (fits) expect(found).toEqual({ ok: true, binary: { file: path, version: `${name} ${version}` } });
  else
    expect(found).toMatchObject({ ok: false, hint: expect.stringMatching(`^${path} is ${name} ${version}: install `) });
});

it('the first that is new enough is taken, redis-server before valkey-server', async () => {
  await put('a', 'redis-server', says('Redis', '6.0.16'));
  const valkey = await put('a', 'valkey-server', says('Valkey', '8.0.0'));
  expect(await find('a')).toMatchObject({ binary: { file: valkey } });
  const redis = await put('b', 'redis-server', says('Redis', '7.2.1'));
  expect(await find('a', 'b')).toMatchObject({ binary: { file: redis } });
});

it('what is no program is passed over', async () => {
  await put('a', 'redis-server', says('Redis', '7.0.0'), 0o644);
  await mkdir(join(root, 'b', 'redis-server'), { recursive: true });
  expect(await find('a', 'b')).toMatchObject({
    ok: false,
    hint: expect.stringMatching('^no redis-server or valkey-server on PATH: '),
  });
});

it('one that does not tell its version is named', async () => {
  const path = await put('a', 'redis-server', 'hello');
  expect(await find('a')).toMatchObject({
    ok: false,
    hint: expect.stringMatching(`^${path} does not tell its version: `),
  });
});

it.each(['', ':', '.:bin'])('PATH %j: one line that says how to install one', async (path) => {
  const found = await findRedisBinary(path);
  expect(found).toEqual({
    ok: false,
    hint: 'no redis-server or valkey-server on PATH: install Redis 7.0 or Valkey 7.2, or later (`apt-get install redis-server`, `dnf install valkey`, `apk add redis` or `brew install redis`), or name a running one by --redis-url',
  });
});
