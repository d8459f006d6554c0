import { randomBytes } from 'node:crypto';
import { createBytesInFlight } from '@nereid/caller';
import { afterEach, describe, expect, it } from 'vitest';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import { ECHO, echo } from './sample-calls.ts';
import type { GrpcCall } from './transport.ts';

let fixture: Http2Fixture;
afterEach(() => fixture.close());

async function started(options: Http2FixtureOptions = {}, ...calls: GrpcCall[]): Promise<Http2Fixture> {
  fixture = await http2Fixture([echo, ...calls], options);
  return fixture;
}

describe('an answer', () => {
  it('that its client does not take is cut off, and what it held is let go', async () => {
    const bytesInFlight = createBytesInFlight(1e9);
    const session = (await started({ bytesInFlight, answer_unread_timeout_ms: 500, message_bytes_max: 1e8 })).session();
    const call = open(session, ECHO);
    call.pause();
    call.send(frame(Buffer.alloc(10_000_000)));
    call.half();
    await expect.poll(() => bytesInFlight.held).toBeGreaterThan(10_000_000);
    await expect.poll(() => bytesInFlight.held).toBe(0);
    call.resume();
    expect((await call.ended).trailers).not.toHaveProperty('grpc-status');
  });

  it('is cut off also where it is small and of a call whose client takes no byte', async () => {
    const bytesInFlight = createBytesInFlight(1e9);
    await started({ bytesInFlight, answer_unread_timeout_ms: 30 });
    const session = fixture.session({ settings: { initialWindowSize: 0 } });
    expect((await send(session, ECHO, frame('hello'))).trailers).not.toHaveProperty('grpc-status');
    await expect.poll(() => bytesInFlight.held).toBe(0);
  });

  it('that is taken is not, however large', async () => {
    const bytesInFlight = createBytesInFlight(1e9);
    await started({ bytesInFlight, answer_unread_timeout_ms: 60_000, message_bytes_max: 1e8 });
    const message = frame(randomBytes(20_000_000));
    const { body, trailers } = await send(fixture.session(), ECHO, message);
    expect([body.equals(message), trailers['grpc-status']]).toEqual([true, '0']);
    await expect.poll(() => bytesInFlight.held).toBe(0);
  });
});
