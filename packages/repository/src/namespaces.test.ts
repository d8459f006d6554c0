import { describe, expect, test } from 'vitest';
import { modelNames, namespacesOf, stepName } from './namespaces.ts';

test.each<[string, string[], string[]]>([
  ['one repository', ['/srv/models'], ['models']],
  ['last parts that differ', ['/srv/a', '/srv/b'], ['a', 'b']],
  ['the same last part', ['/srv/a/models', '/srv/b/models'], ['a/models', 'b/models']],
  ['the same last parts', ['/x/a/m', '/y/a/m', '/y/b/m'], ['x/a/m', 'y/a/m', 'b/m']],
  ['one at the end of another', ['/models', '/srv/models'], ['/models', 'srv/models']],
  ['buckets', ['s3://one/models/', 's3://two/models'], ['one/models', 'two/models']],
  ['the same path elsewhere', ['s3://models', '/models'], ['s3://models', '/models']],
  ['the root', ['/'], ['/']],
])('the namespaces of %s', (_name, places, expected) => {
  expect([...namespacesOf(places).values()]).toEqual(expected);
});

const A = '/srv/a';
const B = '/srv/b';
const named = (...models: [place: string, folder: string][]) =>
  modelNames(
    models.map(([place, folder]) => ({ place, folder })),
    namespacesOf([A, B]),
  );

test('a name alone where it is the only one, else behind its namespace', () => {
  const models = named([A, 'both'], [A, 'one'], [B, 'both'], [B, 'two']);
  expect(models.map(({ name }) => name)).toEqual(['a::both', 'one', 'b::both', 'two']);
});

describe("the model of an ensemble's step is", () => {
  const models = named([A, 'both'], [A, 'one'], [B, 'both'], [B, 'two']);
  test.each<[string, string, string, string]>([
    ['that of its own repository', 'both', B, 'b::both'],
    ['the only one elsewhere', 'one', B, 'one'],
    ['left as it is where there is none', 'none', B, 'none'],
    ['left as it is where others have it', 'both', '/srv/c', 'both'],
    ['left as it is where it has its namespace', 'a::both', B, 'a::both'],
  ])('%s', (_name, step, place, expected) => {
    expect(stepName(step, place, models)).toBe(expected);
  });
});
