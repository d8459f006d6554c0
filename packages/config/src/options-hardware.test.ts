import { expect, test } from 'vitest';
import { readCores, readHostPolicies } from './options-hardware.ts';

test.each<[string, string, readonly number[] | undefined]>([
  ['a range', '0-3', [0, 1, 2, 3]],
  ['one core', '2', [2]],
  ['ranges and cores, in any order and overlapping', '4-5,0,5-6', [0, 4, 5, 6]],
  ['a range that runs backwards', '3-1', undefined],
  ['no number', 'a-b', undefined],
  ['an open range', '1-', undefined],
  ['nothing', '', undefined],
  ['an empty part', '0,,1', undefined],
  ['more than a machine can have', '0-8192', undefined],
  ['blanks', '0 - 1', undefined],
])('cores: %s', (_name, text, cores) => {
  expect(readCores(text)).toEqual(cores);
});

test('settings of one policy add up, and the last of each wins', () => {
  const policies = readHostPolicies(['a,cpu-cores=0-1', 'b,numa-node=1', 'a,numa-node=0', 'a,cpu-cores=2']);
  expect(policies).toEqual(
    new Map([
      ['a', { cores: [2], node: 0 }],
      ['b', { cores: undefined, node: 1 }],
    ]),
  );
});

test.each([
  ['no name', ',cpu-cores=0-1'],
  ['no setting', 'a'],
  ['a setting that there is not', 'a,weird=3'],
  ['no value', 'a,cpu-cores='],
  ['no node', 'a,numa-node=x'],
  ['a node that no machine has', 'a,numa-node=1024'],
])('no policy: %s', (_name, text) => {
  expect(readHostPolicies([text])).toBeUndefined();
});
