import type { DesiredModel, ModelRecord } from '@nereid/config';
import { expect, test } from 'vitest';
import { fakeModel } from './fake-cluster.ts';
import { fakeEnsemble } from './fake-ensemble.ts';
import { unloadedWithDependents } from './unloaded-dependents.ts';

const record = (source: ReturnType<typeof fakeModel>): ModelRecord => ({ ...source, versions: [] });
const RECORDS = new Map(
  [
    fakeEnsemble('e', ['A>a>x', 'x>b>B']),
    fakeEnsemble('f', ['A>b>B']),
    fakeEnsemble('outer', ['A>e>x', 'x>c>B']),
    fakeModel('a'),
    fakeModel('b'),
    fakeModel('c'),
  ].map((source) => [source.name, record(source)]),
);
const IMPLICIT: DesiredModel = { implicit: true };
const UNLOADED: DesiredModel = { unloaded: true };

test.each([
  ['a model alone', 'a', { a: {} }, ['a']],
  ['one that nobody knows', 'x', {}, ['x']],
  ['an ensemble and what only it wants', 'e', { e: {}, a: IMPLICIT, b: IMPLICIT }, ['e', 'a', 'b']],
  ['not what somebody named', 'e', { e: {}, a: {}, b: IMPLICIT }, ['e', 'b']],
  ['not what another ensemble wants', 'e', { e: {}, f: {}, a: IMPLICIT, b: IMPLICIT }, ['e', 'a']],
  ['but what one that was unloaded wants', 'e', { e: {}, f: UNLOADED, a: IMPLICIT, b: IMPLICIT }, ['e', 'a', 'b']],
  [
    'an ensemble in an ensemble',
    'outer',
    { outer: {}, e: IMPLICIT, a: IMPLICIT, b: IMPLICIT, c: {} },
    ['outer', 'e', 'a', 'b'],
  ],
  ['not below one that somebody named', 'outer', { outer: {}, e: {}, a: IMPLICIT, c: IMPLICIT }, ['outer', 'c']],
] as const)('%s', (_name, model, desired, gone) => {
  expect(unloadedWithDependents(model, new Map(Object.entries(desired)), (name) => RECORDS.get(name))).toEqual(gone);
});
