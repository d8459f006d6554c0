import { expect, test } from 'vitest';
import { integerField, packedField, readFields, stringField, writeFields } from '../../deploy/setup/protobuf.mjs';
import { MLPS, mlpModel } from '../bench/models/mlp.mjs';

test.each([
  ['0', integerField(1, 0), [0x08, 0x00]],
  ['300, in two bytes', integerField(1, 300), [0x08, 0xac, 0x02]],
  ['-1, as an int64 in ten bytes', integerField(1, -1), [0x08, ...Array(9).fill(0xff), 0x01]],
  ['a field past 15, its tag in two bytes', integerField(20, 2), [0xa0, 0x01, 0x02]],
  ['integers, packed', packedField(3, [1, 300]), [0x1a, 0x03, 0x01, 0xac, 0x02]],
  ['a string', stringField(2, 'né'), [0x12, 0x03, 0x6e, 0xc3, 0xa9]],
])('%s is written as protobuf does', (_what, field, bytes) => {
  expect([...writeFields([field])]).toEqual(bytes);
});

test('what is read and written again is the same file', () => {
  const model = mlpModel('mlp', MLPS.mlp);
  expect(Buffer.compare(writeFields(readFields(model)), model)).toBe(0);
});

test.each([
  ['ends within a number', [0x08, 0x80]],
  ['ends within a string', [0x12, 0x05, 0x61]],
  ['has a wire type that is gone', [0x0b]],
])('a message that %s is refused', (_what, bytes) => {
  expect(() => readFields(Uint8Array.from(bytes))).toThrow(/protobuf/);
});
