import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { createBytesInFlight } from '../bytes-in-flight.ts';
import { createCallBytes } from './call-bytes.ts';
import { decompressed } from './message-compression.ts';

const BYTES = 8_000_000;
const message = gzipSync(Buffer.alloc(BYTES));

describe('a compressed message', () => {
  it('is inflated to its end while its call is open', async () => {
    const account = createCallBytes(createBytesInFlight(1e9));
    expect(await decompressed(message, 'gzip', 1e9, account)).toMatchObject({ ok: true, bytes: { length: BYTES } });
  });

  it('is not inflated further once its call has closed, where what it grows to counts nowhere', async () => {
    const account = createCallBytes(createBytesInFlight(1e9));
    const plain = decompressed(message, 'gzip', 1e9, account);
    account.close();
    expect(await plain).toMatchObject({ ok: false });
  });
});
