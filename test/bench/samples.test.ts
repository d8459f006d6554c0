import { expect, test } from 'vitest';
import { readSamples } from './samples.mjs';

function sample(request: number, header: number, body: string): Buffer {
  const head = Buffer.alloc(12);
  for (const [place, value] of [request, header, body.length].entries()) head.writeInt32LE(value, place * 4);
  return Buffer.concat([head, Buffer.from(body)]);
}

test('answers one after the other, with and without the v2 header', () => {
  const found = readSamples(Buffer.concat([sample(3, -1, '{}'), sample(0, 2, '{}abc'), sample(1, -1, '')]));
  expect(found.map(({ request, body }) => [request, body.toString()])).toEqual([
    [3, '{}'],
    [0, '{}abc'],
    [1, ''],
  ]);
  expect(found.map(({ headers }) => headers.get('inference-header-content-length'))).toEqual([null, '2', null]);
});
