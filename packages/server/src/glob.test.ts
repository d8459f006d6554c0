import { expect, test } from 'vitest';
import { globMatcher } from './glob.ts';

test.each([
  [['*'], 'anything', true],
  [['bert-*'], 'bert-large', true],
  [['bert-*'], 'my-bert-large', false],
  [['m?'], 'm1', true],
  [['m?'], 'm12', false],
  [['a.b'], 'axb', false],
  [['x', 'y'], 'y', true],
  [[], 'x', false],
])('%j matches %j: %j', (globs, text, matches) => {
  expect(globMatcher(globs)(text)).toBe(matches);
});
