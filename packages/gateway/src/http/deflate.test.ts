import { randomBytes } from 'node:crypto';
import { gunzipSync, inflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { ContentCoding } from './content-coding.ts';
import { deflateParts } from './deflate.ts';

interface Deflated {
  readonly bytes: Buffer;
  readonly coding: ContentCoding;
}

function deflate(parts: readonly Uint8Array[], coding: 'gzip' | 'deflate'): Promise<Deflated> {
  const length = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return new Promise((resolve) => {
    deflateParts(parts, length, coding, (given, used) => resolve({ bytes: Buffer.concat(given), coding: used }));
  });
}

const small = [Buffer.from('{"outputs":['), Buffer.from(']}'), Uint8Array.of(1, 2, 3)];
const large = [Buffer.from('{}'), randomBytes(100_000), Buffer.alloc(1_000_000, 1), new Uint8Array(0)];

describe('the parts of an answer are compressed as one', () => {
  it.each([
    ['small', small],
    ['large', large],
  ])('%s', async (_, parts) => {
    const gzip = await deflate(parts, 'gzip');
    const zlib = await deflate(parts, 'deflate');
    expect([gzip.coding, zlib.coding]).toEqual(['gzip', 'deflate']);
    expect(gunzipSync(gzip.bytes).equals(Buffer.concat(parts))).toBe(true);
    expect(inflateSync(zlib.bytes).equals(Buffer.concat(parts))).toBe(true);
    expect(gzip.bytes.length).toBeLessThan(110_000);
  });

  it('at once where they are small, later where they are not', async () => {
    const order: string[] = [];
    const first = deflate(large, 'gzip').then(() => order.push('large'));
    deflateParts(small, 17, 'gzip', () => order.push('small'));
    order.push('here');
    await first;
    expect(order).toEqual(['small', 'here', 'large']);
  });
});
