import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import { CHAT, chat, ECHO, echo, WAIT, waitCall } from './sample-calls.ts';
import type { GrpcCall } from './transport.ts';

let fixture: Http2Fixture;
afterEach(() => fixture.close());

async function started(options: Http2FixtureOptions = {}, ...calls: GrpcCall[]): Promise<Http2Fixture> {
  fixture = await http2Fixture([echo, ...calls], options);
  return fixture;
}

describe('the end', () => {
  it('new calls are refused, running ones finish, then it is over', async () => {
    const { call, waiting } = waitCall();
    const { transport } = await started({}, call);
    const session = fixture.session();
    const running = send(session, WAIT, frame('x'));
    await waiting.arrived;
    const closed = transport.close(60_000);
    for (const one of [session, fixture.session()]) {
      expect((await send(one, ECHO, frame(''))).trailers).toMatchObject({
        'grpc-status': '14',
        'grpc-message': 'GRPC server is shutting down and has stopped accepting new requests.',
        'nereid-error': 'UNAVAILABLE',
      });
    }
    waiting.release();
    expect((await running).trailers['grpc-status']).toBe('0');
    await closed;
  });

  it('after the deadline what is left is cut, which cancels it', async () => {
    const { call, waiting } = waitCall();
    const { transport } = await started({}, call);
    const running = send(fixture.session(), WAIT, frame('x'));
    await waiting.arrived;
    await transport.close(20);
    await waiting.aborted;
    expect((await running).trailers).not.toHaveProperty('grpc-status');
  });

  it('a connection without calls does not hold it up', async () => {
    const { transport } = await started();
    const session = fixture.session();
    await send(session, ECHO, frame(''));
    const closed = once(session, 'close');
    await transport.close(60_000);
    await closed;
  });

  it('a connection on which nothing was ever sent does not hold it up', async () => {
    const { transport, url } = await started();
    const socket = connect(Number(url.slice(url.lastIndexOf(':') + 1)), '127.0.0.1');
    await once(socket, 'connect');
    socket.resume();
    const closed = once(socket, 'close');
    await transport.close(60_000);
    await closed;
  });

  it('streams hear of it, so that they can end', async () => {
    const patient = chat(
      (call) =>
        new Promise<void>((resolve) => {
          call.stopping.addEventListener('abort', () => resolve());
          void call.write(Buffer.from('ready'));
        }),
    );
    const { transport } = await started({}, patient);
    const call = open(fixture.session(), CHAT);
    await call.received(10);
    await transport.close(60_000);
    expect((await call.ended).trailers['grpc-status']).toBe('0');
  });

  it('any number of streams may listen for it without a warning', async () => {
    const warned: string[] = [];
    const listen = ({ name }: Error) => void warned.push(name);
    process.on('warning', listen);
    const call = chat(async ({ stopping }) => {
      for (let at = 0; at < 12; at++) stopping.addEventListener('abort', () => {});
    });
    await open((await started({}, call)).session(), CHAT).ended;
    process.off('warning', listen);
    expect(warned).toEqual([]);
  });

  it('a port that is taken is told with the flag that changes it', async () => {
    const { url } = await started();
    const port = Number(url.slice(url.lastIndexOf(':') + 1));
    const again = http2Fixture([], { port });
    await expect(again).rejects.toThrow(/another process has that port; choose another with --grpc-port/);
  });
});
