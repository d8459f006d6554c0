import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listModels } from './repository.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-repository-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function folders(...paths: string[]): void {
  for (const path of paths) mkdirSync(join(root, path), { recursive: true });
}

test('folders by name, without files and what starts with a dot', async () => {
  folders('a/zebra', 'a/ant', 'a/.git', 'elsewhere');
  writeFileSync(join(root, 'a', 'README.md'), '');
  symlinkSync(join(root, 'elsewhere'), join(root, 'a', 'linked'));
  symlinkSync(join(root, 'nowhere'), join(root, 'a', 'dangling'));
  symlinkSync(join(root, 'a', 'README.md'), join(root, 'a', 'file'));
  expect(await listModels([join(root, 'a')])).toEqual(
    ['ant', 'linked', 'zebra'].map((name) => ({ name, directory: join(root, 'a', name), conflict: null })),
  );
});

test('a name in two repositories is a conflict', async () => {
  folders('a/one', 'a/both', 'b/both', 'b/two');
  expect(await listModels([join(root, 'a'), join(root, 'b')])).toEqual([
    { name: 'both', directory: join(root, 'a', 'both'), conflict: 'model appears in two or more repositories' },
    { name: 'one', directory: join(root, 'a', 'one'), conflict: null },
    { name: 'two', directory: join(root, 'b', 'two'), conflict: null },
  ]);
});

test('the same repository given twice is one', async () => {
  folders('a/one');
  expect(await listModels([join(root, 'a'), `${join(root, 'a')}/`])).toMatchObject([{ name: 'one', conflict: null }]);
});

test.each([
  ['missing', 'nowhere', /the model repository '.*nowhere' cannot be read: ENOENT/],
  ['a file', 'file', /the model repository '.*file' cannot be read: ENOTDIR/],
])('a repository that is %s', async (_name, path, text) => {
  writeFileSync(join(root, 'file'), '');
  await expect(listModels([join(root, path)])).rejects.toThrow(
    expect.objectContaining({ name: 'NereidError', code: 'INVALID_ARG', message: expect.stringMatching(text) }),
  );
});
