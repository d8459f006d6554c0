import { describe, expect, test } from 'vitest';
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

describe('with namespacing', () => {
  const sources = () => [source('/srv/a', { both: 'x', one: 'y' }), source('/srv/b', { both: 'z', 'a::both': 'odd' })];
  const joined = () => joinRepositories(sources(), { namespacing: true });

  test('a name in two repositories is two models', async () => {
    const from = (repository: string, folder: string) => ({ repository, folder });
    expect(await joined().folders()).toEqual([
      { name: 'a::both', conflict: CONFLICT, from: from('/srv/a', 'both') },
      { name: 'b::both', conflict: null, from: from('/srv/b', 'both') },
      { name: 'one', conflict: null, from: from('/srv/a', 'one') },
    ]);
    expect(await joined().fetch('b::both')).toMatchObject({ directory: '/srv/b/both', folder: 'both' });
    expect(await joined().fetch('one')).toMatchObject({ directory: '/srv/a/one', folder: 'one' });
  });

  test('which one is meant must be said', async () => {
    await expect(joined().fetch('both')).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message:
        "There are 2 identifiers of model 'both' in global map, model namespace must be provided to resolve ambiguity.",
    });
    await expect(joined().fetch('a::both')).rejects.toMatchObject({ message: `failed to load 'a::both': ${CONFLICT}` });
  });

  test('a step means the model of its own repository, else the only one', async () => {
    const { stepName } = await joined().fetch('b::both');
    expect(['both', 'one', 'none'].map(stepName)).toEqual(['b::both', 'one', 'none']);
    const { stepName: plain } = await joinRepositories(sources().slice(0, 1)).fetch('one');
    expect(plain('both')).toBe('both');
  });

  test('every signature is another one once names have namespaces', async () => {
    const signatures = async (second: Record<string, string>) => {
      const list = await joinRepositories([source('/srv/a', { both: 'x', one: 'y' }), source('/srv/b', second)], {
        namespacing: true,
      }).list();
      return new Map(list.map(({ name, signature }) => [name, signature]));
    };
    const [before, after, later] = [
      await signatures({}),
      await signatures({ both: 'z' }),
      await signatures({ both: 'zz' }),
    ];
    expect(before.get('one')).toBe('y');
    expect(after.get('one')).not.toBe('y');
    expect(later.get('one')).toBe(after.get('one'));
    expect(later.get('b::both')).not.toBe(after.get('b::both'));
  });
});

test('the same repository given twice is one', async () => {
  const joined = joinRepositories([source('/a', { one: 'x' }), source('/a', { one: 'x' })]);
  expect(await joined.folders()).toEqual([{ name: 'one', conflict: null }]);
});
