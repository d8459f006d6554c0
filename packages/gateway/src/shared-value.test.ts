import { expect, it } from 'vitest';
import { valueMembers } from './shared-value.ts';

it.each([
  [undefined, {}],
  ['', {}],
  ['[1]', {}],
  ['null', {}],
  ['{"a":1}', { a: 1 }],
])('%j is read as %o', (text, members) => {
  expect(valueMembers(text)).toEqual(members);
});
