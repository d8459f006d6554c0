import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { createBytesInFlight } from '@nereid/caller';
import { afterEach, describe, expect, it } from 'vitest';
import { createCallBytes } from './call-bytes.ts';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import { decompressed } from './message-compression.ts';
import { CHAT, ECHO, echo, echoAll } from './sample-calls.ts';
import type { GrpcCall } from './transport.ts';

let fixture: Http2Fixture;

async function started(options: Http2FixtureOptions = {}, ...calls: GrpcCall[]): Promise<Http2Fixture> {
  fixture = await http2Fixture([echo, ...calls], options);
  return fixture;
}

describe('compression', () => {
  afterEach(() => fixture.close());

  it.each([
    ['gzip', gzipSync, 'hello'],
    ['deflate', deflateSync, 'hello'],
    ['gzip', gzipSync, Buffer.from(Array.from({ length: 50_000 }, (_, at) => (at * 7919) % 251)).toString('latin1')],
  ] as const)('a %s request is read', async (encoding, pack, text) => {
    const body = frame(pack(Buffer.from(text)), 1);
    const ended = await send((await started()).session(), ECHO, body, { 'grpc-encoding': encoding });
    expect(ended.body.subarray(5).toString()).toBe(text);
    expect(ended.header['grpc-encoding']).toBeUndefined();
  });

  it.each<[string, string | undefined, Uint8Array, number, RegExp]>([
    ['by an unknown encoding', 'snappy', Buffer.from('x'), 12, /unsupported encoding "snappy"/],
    ['by none', undefined, Buffer.from('x'), 13, /without a grpc-encoding/],
    ['that is broken', 'gzip', Buffer.from('x'), 13, /Failed to decompress/],
    ['that is broken and large', 'gzip', Buffer.alloc(10_000), 13, /Failed to decompress/],
    ['that grows beyond the bound', 'gzip', gzipSync(Buffer.alloc(1_000_001)), 8, /larger than max/],
  ])('a message %s is refused', async (_what, encoding, bytes, code, text) => {
    const header = encoding === undefined ? undefined : { 'grpc-encoding': encoding };
    const { trailers } = await send((await started()).session(), ECHO, frame(bytes, 1), header);
    expect(trailers['grpc-status']).toBe(String(code));
    expect(String(trailers['grpc-message'])).toMatch(text);
  });

  it.each([
    ['low', 'identity, deflate, gzip', 'gzip', gunzipSync],
    ['high', 'identity,deflate', 'deflate', inflateSync],
  ] as const)(
    'an answer is compressed at level %s for who takes %s',
    async (compressionLevel, accepted, encoding, unpack) => {
      const session = (await started({ compressionLevel }, echoAll)).session();
      for (const size of [100, 100_000]) {
        const message = Buffer.alloc(size, 'abc');
        const ended = await send(session, ECHO, frame(message), { 'grpc-accept-encoding': accepted });
        expect(ended.header['grpc-encoding']).toBe(encoding);
        expect([ended.body[0], ended.body.length < size]).toEqual([1, true]);
        expect(unpack(ended.body.subarray(5)).equals(message)).toBe(true);
      }
    },
  );

  it('not for a client that does not take it, nor for other calls', async () => {
    const session = (await started({ compressionLevel: 'high' })).session();
    const ended = await send(session, ECHO, frame('hello'), { 'grpc-accept-encoding': 'identity,snappy' });
    expect([ended.header['grpc-encoding'], ended.body[0]]).toEqual([undefined, 0]);
  });

  it('messages of a stream keep their order, whatever their size', async () => {
    const session = (await started({ compressionLevel: 'medium' }, echoAll)).session();
    const messages = [200_000, 10, 100_000, 20].map((size, at) => Buffer.alloc(size, String(at)));
    const call = open(session, CHAT, { 'grpc-accept-encoding': 'gzip' });
    for (const message of messages) call.send(frame(message));
    call.half();
    const { body, trailers } = await call.ended;
    const got: Buffer[] = [];
    for (let at = 0; at < body.length; ) {
      const length = body.readUInt32BE(at + 1);
      got.push(gunzipSync(body.subarray(at + 5, at + 5 + length)));
      at += 5 + length;
    }
    expect(got.map(({ length }) => length)).toEqual(messages.map(({ length }) => length));
    expect(trailers['grpc-status']).toBe('0');
  });
});

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
