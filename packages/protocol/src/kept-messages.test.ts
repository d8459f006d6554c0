import { expect, test } from 'vitest';
import type { BlobRef, CarriedTensor } from './blob.ts';
import { firstKeeper } from './kept-messages.ts';

const here: CarriedTensor = { name: 'A', datatype: 'UINT8', shape: [1], data: Uint8Array.of(1) };
const named = (place: BlobRef['place'], id: string): CarriedTensor => ({
  ...{ name: 'B', datatype: 'UINT8', shape: [1] },
  blob: { place, id, bytes: 1 },
});

test.each([
  ['of none', [], undefined],
  ['of data and blobs', [here, named('file', 'bl-1-2'), named('redis', 'bl-1-3')], undefined],
  ['of several', [here, named('redis', 'bl-1-3'), named('worker', 'wk-a1-2'), named('worker', 'wk-b2-7')], 'wk-a1'],
] as const)('the first worker that keeps a tensor: %s', (_of, tensors, expected) => {
  expect(firstKeeper(tensors)).toBe(expected);
});
