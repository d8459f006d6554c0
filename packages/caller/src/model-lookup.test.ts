import { afterEach, expect, it, test, vi } from 'vitest';
import { versionRefusal } from './model-lookup.ts';

afterEach(() => vi.restoreAllMocks());

it.each([
  ['', true],
  ['007', true],
  [`${'0'.repeat(40)}1`, true],
  ['9223372036854775807', true],
  ['9223372036854775808', false],
  ['-1', false],
  ['1.0', false],
])('whether a version may be written as %j', (version, expected) => {
  expect(versionRefusal(version) === undefined).toBe(expected);
});

test('no number is made of more digits than one has: that takes seconds for some millions', () => {
  const made = vi.spyOn(globalThis, 'BigInt');
  expect(versionRefusal('9'.repeat(1_000))).toMatchObject({ code: 'INVALID_ARG' });
  expect(made).not.toHaveBeenCalled();
});
