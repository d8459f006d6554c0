import { describe, expect, test } from 'vitest';
import { parseModelConfig } from './parse-model-config.ts';
import { compareVersions, isVersionName, selectVersions } from './select-versions.ts';

describe('folders that are versions', () => {
  test.each([
    ['1', true],
    ['20231128170005', true],
    ['9223372036854775807', true],
    ['9223372036854775808', false],
    ['0', false],
    ['01', false],
    ['-1', false],
    ['1a', false],
    ['abc', false],
    ['', false],
    ['1.0', false],
    ['１', false],
  ])('%s: %s', (name, is) => {
    expect(isVersionName(name)).toBe(is);
  });
});

test('versions are ordered by number', () => {
  expect(['10', '9', '20231128170005', '1'].sort(compareVersions)).toEqual(['1', '9', '10', '20231128170005']);
});

describe('version policy', () => {
  test.each([
    ['latest { num_versions: 1 }', ['10']],
    ['latest { num_versions: 2 }', ['9', '10']],
    ['latest { num_versions: 7 }', ['1', '9', '10']],
    ['latest { }', []],
    ['all { }', ['1', '9', '10']],
    ['specific { versions: [ 10, 7, 1 ] }', ['1', '10']],
    ['specific { versions: 7 }', []],
    ['specific { }', []],
  ])('%s', (policy, selected) => {
    const config = parseModelConfig(`version_policy { ${policy} }`, 'c');
    expect(selectVersions(config, ['9', '10', '1'])).toEqual(selected);
  });
});
