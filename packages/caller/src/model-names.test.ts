import { encodeRepositoryList, REPOSITORY_VALUE, type RepositoryFolder } from '@nereid/config';
import { createLocalDirectory } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createModelNames } from './model-names.ts';

const of = (name: string, repository: string, folder: string): RepositoryFolder => ({
  name,
  conflict: null,
  from: { repository, folder },
});

async function namesOf(folders: readonly RepositoryFolder[]) {
  const directory = createLocalDirectory<unknown>();
  await directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode: 'none', folders }));
  return createModelNames(directory);
}

test.each<[string, string | number | undefined]>([
  ['m', 3],
  ['x/a::m', undefined],
  ['b::m', undefined],
  ['/srv/x/a::m', 'x/a::m'],
  ['/srv/b::m', 'b::m'],
  ['srv/b::m', 'b::m'],
  ['a::m', 2],
  ['rv/b::m', undefined],
  ['one', undefined],
  ['b::one', 'one'],
  ['x/a::one', undefined],
  ['a::odd::name', 'odd::name'],
  ['none', undefined],
  ['b::none', undefined],
  ['::m', undefined],
  ['b::', undefined],
])('%s means %s', async (name, meant) => {
  const names = await namesOf([
    of('x/a::m', '/srv/x/a', 'm'),
    of('y/a::m', '/srv/y/a', 'm'),
    of('b::m', '/srv/b', 'm'),
    of('one', '/srv/b', 'one'),
    of('odd::name', '/srv/x/a', 'odd::name'),
  ]);
  expect(names.resolve(name)).toBe(meant);
});

test('without namespacing, and before anything is told, names are what they are', async () => {
  const names = await namesOf([{ name: 'm', conflict: null }]);
  expect([names.resolve('m'), names.resolve('a::m')]).toEqual([undefined, undefined]);
  expect(createModelNames(createLocalDirectory<unknown>()).resolve('m')).toBeUndefined();
});
