import { expect, test } from 'vitest';
import { isIgnoredName } from './ignored-names.ts';

test.each<[string, boolean]>([
  ['.config.pbtxt.swp', true],
  ['.git', true],
  ['config.pbtxt~', true],
  ['config.swp', true],
  ['4913', true],
  ['config.pbtxt', false],
  ['49131', false],
  ['1', false],
  ['model.swp.onnx', false],
])('%s is ignored: %s', (name, ignored) => {
  expect(isIgnoredName(name)).toBe(ignored);
});
