import { once } from 'node:events';
import { constants } from 'node:http2';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import { ECHO, echo, WAIT, waitCall } from './sample-calls.ts';
import type { GrpcCall } from './transport.ts';

let fixture: Http2Fixture;
afterEach(() => fixture.close());

async function started(options: Http2FixtureOptions = {}, ...calls: GrpcCall[]): Promise<Http2Fixture> {
  fixture = await http2Fixture([echo, ...calls], options);
  return fixture;
}

describe('connections', () => {
  const goneAway = async (session: ReturnType<Http2Fixture['session']>) => {
    const [code, , data] = (await once(session, 'goaway')) as [number, number, Buffer | undefined];
    return [code, data?.toString()];
  };
  const ping = (session: ReturnType<Http2Fixture['session']>) =>
    new Promise((resolve) => session.ping((failure) => resolve(failure)));

  it('one who asks too often for a sign of life is sent away', async () => {
    const session = (await started({ rules: { ping_strikes_max: 2 } })).session();
    const away = goneAway(session);
    await once(session, 'connect');
    // The first is free, the next two are strikes.
    for (let at = 0; at < 3; at++) expect(await ping(session)).toBeNull();
    void ping(session);
    expect(await away).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM, 'too_many_pings']);
  });

  it('not while it is sent something in between, nor without a bound', async () => {
    await started({ rules: { ping_strikes_max: 1 } });
    const session = fixture.session();
    await once(session, 'connect');
    for (let at = 0; at < 5; at++) {
      expect(await ping(session)).toBeNull();
      expect((await send(session, ECHO, frame(''))).trailers['grpc-status']).toBe('0');
    }
    await fixture.close();
    await started({ rules: { ping_strikes_max: 0 } });
    const other = fixture.session();
    await once(other, 'connect');
    for (let at = 0; at < 5; at++) expect(await ping(other)).toBeNull();
  });

  it('one that is too old ends after its calls', async () => {
    const { call, waiting } = waitCall();
    const session = (await started({ rules: { age_max_ms: 20 } }, call)).session();
    const away = goneAway(session);
    const running = send(session, WAIT, frame(''));
    await waiting.arrived;
    expect(await away).toEqual([constants.NGHTTP2_NO_ERROR, 'max_age']);
    waiting.release();
    expect((await running).trailers['grpc-status']).toBe('0');
  });

  it('the calls of an old one are cut after the grace', async () => {
    const { call, waiting } = waitCall();
    const session = (await started({ rules: { age_max_ms: 20, age_grace_ms: 20 } }, call)).session();
    open(session, WAIT).send(frame(''));
    await waiting.aborted;
  });

  it('a silent client is asked for a sign of life, and kept while it gives one', async () => {
    const rules = { keepalive_time_ms: 10, keepalivePermitWithoutCalls: true, pings_without_data_max: 0 };
    const session = (await started({ rules })).session();
    for (let at = 0; at < 3; at++) await once(session, 'ping');
    expect((await send(session, ECHO, frame(''))).trailers['grpc-status']).toBe('0');
  });

  it('one that gives none is cut', async () => {
    const rules = { keepalive_time_ms: 10, keepalive_timeout_ms: 10, keepalivePermitWithoutCalls: true };
    const { url } = await started({ rules });
    const socket = connect(Number(url.slice(url.lastIndexOf(':') + 1)), '127.0.0.1');
    // The preface and empty settings; pings are never answered.
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.write(Uint8Array.of(0, 0, 0, 4, 0, 0, 0, 0, 0));
    socket.resume();
    await once(socket, 'close');
  });

  it('no more often in a row than allowed', async () => {
    const rules = { keepalive_time_ms: 5, keepalivePermitWithoutCalls: true, pings_without_data_max: 2 };
    const session = (await started({ rules })).session();
    let pings = 0;
    session.on('ping', () => pings++);
    await once(session, 'ping');
    await once(session, 'ping');
    // The next ones would come within this many of the server's own intervals.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(pings).toBe(2);
    await send(session, ECHO, frame(''));
    await once(session, 'ping');
  });
});
