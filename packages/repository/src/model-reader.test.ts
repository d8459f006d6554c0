import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { localRepository } from './local-repository.ts';
import { repositoryReader } from './model-reader.ts';
import { joinRepositories } from './repositories.ts';
import type { FetchedModel } from './repository-source.ts';

const CONFIG = `backend: "javascript"
input { name: "A" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "A" data_type: TYPE_INT32 dims: [ 1 ] }
`;

let root = '';
const inModel = (...path: string[]) => join(root, 'm', ...path);
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-reader-'));
  mkdirSync(inModel('1'), { recursive: true });
  writeFileSync(inModel('config.pbtxt'), CONFIG);
  writeFileSync(inModel('1', 'model.mjs'), 'export {};');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A reader that runs each of these after it has taken a first, second … signature. */
function readerWith(...moves: (() => void)[]) {
  const source = localRepository(root);
  const moving = (fetched: FetchedModel): FetchedModel => ({
    ...fetched,
    async signature() {
      const signature = (await fetched.signature?.()) ?? '';
      moves.shift()?.();
      return signature;
    },
  });
  const repositories = joinRepositories([{ ...source, fetch: async (name) => moving(await source.fetch(name)) }]);
  return repositoryReader(repositories, { autoComplete: true, gpus: 0 });
}

const still = () => {};
const breaks = () => writeFileSync(inModel('config.pbtxt'), 'max_batch_size: ');
const mends = () => writeFileSync(inModel('config.pbtxt'), CONFIG);
const grows = () => appendFileSync(inModel('1', 'model.mjs'), '\n');

test('files that stay are read once', async () => {
  const first = await readerWith().read('m');
  expect(await readerWith(still, still, breaks).read('m')).toEqual(first);
});

test('files that move while they are read are read once more, whatever they were found to be', async () => {
  // The second signature is taken behind the read; the third before the next.
  const source = await readerWith(breaks, mends).read('m');
  expect(source.contentHash).toBe((await readerWith().read('m')).contentHash);
  const grown = await readerWith(grows).read('m');
  expect(grown.contentHash).not.toBe(source.contentHash);
  expect(grown.contentHash).toBe((await readerWith().read('m')).contentHash);
});

test('files that move each time are refused', async () => {
  await expect(readerWith(grows, still, grows).read('m')).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: "failed to load 'm': its files changed each time while they were read; load it again once they are whole",
  });
});

test('what is wrong with files that stay is told', async () => {
  breaks();
  await expect(readerWith().read('m')).rejects.toMatchObject({ code: 'INVALID_ARG' });
});

test('a model that is gone is no model that moves', async () => {
  await expect(readerWith(still).read('none')).rejects.toMatchObject({ code: 'INTERNAL' });
});
