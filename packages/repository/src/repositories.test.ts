import { expect, test } from 'vitest';
import { joinRepositories } from './repositories.ts';
import type { FetchedModel, RepositorySource } from './repository-source.ts';

function source(place: string, models: Readonly<Record<string, string>>): RepositorySource {
  return {
    place,
    names: async () => Object.keys(models),
    list: async () => Object.entries(models).map(([name, signature]) => ({ name, signature })),
    async fetch(name) {
      const fetched: FetchedModel = { directory: `${place}/${name}`, hold: () => fetched, release() {} };
      return fetched;
    },
    close: async () => {},
  };
}

const CONFLICT = 'model appears in two or more repositories';

test('models of several repositories by name; a name in two of them is a conflict', async () => {
  const joined = joinRepositories([source('/b', { two: 'x', both: 'b' }), source('/a', { both: 'a', one: 'y' })]);
  expect(await joined.folders()).toEqual([
    { name: 'both', conflict: CONFLICT },
    { name: 'one', conflict: null },
    { name: 'two', conflict: null },
  ]);
  expect(await joined.list()).toEqual([
    { name: 'both', conflict: CONFLICT, signature: 'b' },
    { name: 'one', conflict: null, signature: 'y' },
    { name: 'two', conflict: null, signature: 'x' },
  ]);
  expect((await joined.fetch('one')).directory).toBe('/a/one');
  await expect(joined.fetch('both')).rejects.toMatchObject({
    code: 'INVALID_ARG',
    message: `failed to load 'both': ${CONFLICT}`,
  });
  await expect(joined.fetch('none')).rejects.toMatchObject({
    code: 'INTERNAL',
    message: "failed to load 'none', failed to poll from model repository",
  });
});

test('the same repository given twice is one', async () => {
  const joined = joinRepositories([source('/a', { one: 'x' }), source('/a', { one: 'x' })]);
  expect(await joined.folders()).toEqual([{ name: 'one', conflict: null }]);
});
