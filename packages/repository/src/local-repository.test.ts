import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { localRepository } from './local-repository.ts';

let root = '';
const inModel = (...path: string[]) => join(root, 'model', ...path);

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-repository-'));
  mkdirSync(inModel('1'), { recursive: true });
  writeFileSync(inModel('config.pbtxt'), 'backend: "javascript"');
  writeFileSync(inModel('1', 'model.mjs'), 'export {};');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const signature = async () => (await localRepository(root).list()).find(({ name }) => name === 'model')?.signature;

describe('the signature of a model changes when', () => {
  test.each<[string, () => void]>([
    ['a file is written with another size', () => appendFileSync(inModel('config.pbtxt'), '\n')],
    ['a file has another time of change', () => utimesSync(inModel('1', 'model.mjs'), 1, 1)],
    ['a file is added', () => writeFileSync(inModel('labels.txt'), '')],
    ['a file is removed', () => rmSync(inModel('1', 'model.mjs'))],
    ['a file has another name', () => renameSync(inModel('1', 'model.mjs'), inModel('1', 'other.mjs'))],
    ['a version is added, though it is empty', () => mkdirSync(inModel('2'))],
    [
      'a file below a version is added',
      () => {
        mkdirSync(inModel('1', 'data'));
        writeFileSync(inModel('1', 'data', 'x'), '');
      },
    ],
    ['a link leads to a file', () => symlinkSync(inModel('config.pbtxt'), inModel('1', 'linked'))],
  ])('%s', async (_name, change) => {
    const before = await signature();
    change();
    const after = await signature();
    expect(before).toBeTypeOf('string');
    expect(after).not.toBe(before);
    expect(await signature()).toBe(after);
  });
});

describe('the signature of a model stays when', () => {
  test.each<[string, () => void]>([
    ['nothing happens', () => {}],
    ['a hidden file is written', () => writeFileSync(inModel('.config.pbtxt.swp'), '')],
    ['a hidden folder is written', () => mkdirSync(inModel('1', '.cache'))],
    ['an editor keeps the old file', () => writeFileSync(inModel('config.pbtxt~'), '')],
    ['an editor keeps its notes', () => writeFileSync(inModel('1', 'model.mjs.swp'), '')],
    ['an editor tries whether it may write', () => writeFileSync(inModel('4913'), '')],
    ['a link leads nowhere', () => symlinkSync(join(root, 'nowhere'), inModel('1', 'linked'))],
    ['another model comes', () => mkdirSync(join(root, 'other'))],
  ])('%s', async (_name, change) => {
    const before = await signature();
    change();
    expect(await signature()).toBe(before);
  });
});

test('a circle of links ends', async () => {
  symlinkSync(inModel(), inModel('1', 'again'));
  symlinkSync(inModel(), inModel('1', 'once-more'));
  expect(await signature()).toBeTypeOf('string');
});

test('a model is where it is', async () => {
  const fetched = await localRepository(root).fetch('model');
  expect(fetched.directory).toBe(inModel());
  fetched.release();
  await expect(localRepository(root).fetch('none')).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: `model 'none' is not in the repository '${root}'`,
  });
});
