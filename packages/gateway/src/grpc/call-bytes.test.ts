import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { createBytesInFlight } from '@nereid/caller';
import { afterEach, describe, expect, it } from 'vitest';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import { CHAT, ECHO, echo, echoAll, WAIT, waitCall } from './sample-calls.ts';
import type { GrpcCall } from './transport.ts';

let fixture: Http2Fixture;
afterEach(() => fixture.close());

async function started(options: Http2FixtureOptions = {}, ...calls: GrpcCall[]): Promise<Http2Fixture> {
  fixture = await http2Fixture([echo, ...calls], options);
  return fixture;
}

describe('bytes in flight', () => {
  const over = { 'grpc-status': '14', 'nereid-error': 'UNAVAILABLE' };

  it('a call beyond the bound of the gateway is refused, and what it held is let go', async () => {
    const bytesInFlight = createBytesInFlight(100_000);
    const { call, waiting } = waitCall();
    const session = (await started({ bytesInFlight }, call)).session();
    const first = send(session, WAIT, frame(Buffer.alloc(60_000)));
    await waiting.arrived;
    expect(bytesInFlight.held).toBe(60_005);
    const { trailers } = await send(session, ECHO, frame(Buffer.alloc(60_000)));
    expect(trailers).toMatchObject(over);
    expect(bytesInFlight.held).toBe(60_005);
    waiting.release();
    expect((await first).trailers['grpc-status']).toBe('0');
    await expect.poll(() => bytesInFlight.held).toBe(0);
    expect((await send(session, ECHO, frame(Buffer.alloc(60_000)))).trailers['grpc-status']).toBe('0');
  });

  it('what a message is decompressed to counts', async () => {
    const bytesInFlight = createBytesInFlight(500_000);
    const session = (await started({ bytesInFlight })).session();
    // Of more bytes than are inflated at once.
    const random = randomBytes(20_000);
    for (const message of [Buffer.alloc(600_000), Buffer.concat([random, Buffer.alloc(600_000)])]) {
      const { trailers } = await send(session, ECHO, frame(gzipSync(message), 1), { 'grpc-encoding': 'gzip' });
      expect(trailers).toMatchObject(over);
      await expect.poll(() => bytesInFlight.held).toBe(0);
    }
  });

  it('messages of a stream count until they are read', async () => {
    const bytesInFlight = createBytesInFlight(1_000_000);
    const session = (await started({ bytesInFlight }, echoAll)).session();
    const call = open(session, CHAT, { 'grpc-encoding': 'gzip' });
    for (let at = 0; at < 20; at++) {
      call.send(frame(at % 2 === 0 ? Buffer.alloc(100_000) : gzipSync(Buffer.alloc(100_000)), at % 2));
      await call.received(100_005 * (at + 1));
    }
    await expect.poll(() => bytesInFlight.held).toBe(0);
    call.half();
    expect((await call.ended).trailers['grpc-status']).toBe('0');
  });
});
