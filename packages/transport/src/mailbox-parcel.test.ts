import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PARCEL_COUNTERS_BYTES, packParcels, readParcel } from './mailbox-parcel.ts';

const counters = Buffer.alloc(PARCEL_COUNTERS_BYTES);

const bytesOf = (frame: Uint8Array) => Buffer.from(frame).toString('hex');

/** All frames, parcel after parcel. */
function unpacked(packed: readonly (number | Buffer)[]): readonly (readonly Buffer[])[] {
  const parcels: (readonly Buffer[])[] = [];
  for (let index = 0; index < packed.length; index += 2) {
    const [count, bytes] = packed.slice(index, index + 2);
    if (typeof count !== 'number' || typeof bytes === 'number' || bytes === undefined) throw new Error('no parcel');
    const { frames, whole } = readParcel(Buffer.concat([counters, bytes]));
    expect(whole).toBe(true);
    expect(frames.length).toBe(count);
    parcels.push(frames);
  }
  return parcels;
}

test('frames come back from their parcels, in order', () => {
  const frames = fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 200 });
  fc.assert(
    fc.property(frames, (sent) => {
      expect(unpacked(packParcels(sent)).flat().map(bytesOf)).toEqual(sent.map(bytesOf));
    }),
    { numRuns: 50 },
  );
});

test.each([
  ['many small frames', Array.from({ length: 200 }, () => 10), [64, 64, 64, 8]],
  ['frames that fill parcels', [30_000, 30_000, 30_000], [2, 1]],
  ['a frame above the bound, alone', [10, 100_000, 10], [1, 1, 1]],
  ['no frame', [], []],
])('%s', (_, sizes, expected) => {
  const parcels = unpacked(packParcels(sizes.map((size) => new Uint8Array(size))));
  expect(parcels.map((frames) => frames.length)).toEqual(expected);
});

test('any bytes are read up to where they make no sense', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      const { frames, whole } = readParcel(Buffer.from(bytes));
      const read = frames.reduce((sum, frame) => sum + 4 + frame.byteLength, PARCEL_COUNTERS_BYTES);
      expect(whole).toBe(read === bytes.byteLength);
    }),
  );
});
