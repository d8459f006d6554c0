import { once } from 'node:events';
import { constants } from 'node:http2';
import { createBytesInFlight } from '@nereid/caller';
import { NereidError } from '@nereid/protocol';
import { createLog } from '@nereid/runtime';
import { afterEach, describe, expect, it } from 'vitest';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import { CHAT, chat, ECHO, echo, echoAll, WAIT, waitCall } from './sample-calls.ts';
import type { GrpcCall } from './transport.ts';

const THROW = '/t.T/Throw';

let fixture: Http2Fixture;
afterEach(() => fixture.close());

async function started(options: Http2FixtureOptions = {}, ...calls: GrpcCall[]): Promise<Http2Fixture> {
  fixture = await http2Fixture([echo, ...calls], options);
  return fixture;
}

describe('a unary call', () => {
  it('is answered with its message and status 0', async () => {
    const { header, trailers, body } = await send((await started()).session(), ECHO, frame('hello'));
    expect(header).toMatchObject({ ':status': 200, 'content-type': 'application/grpc' });
    expect(header).not.toHaveProperty('date');
    expect(body.toString('latin1')).toBe(frame('hello').toString('latin1'));
    expect(trailers).toMatchObject({ 'grpc-status': '0' });
  });

  it('comes in any pieces', async () => {
    const session = (await started()).session();
    const large = Buffer.alloc(300_000, 'abc');
    for (const message of [Buffer.from(''), Buffer.from('hello'), large]) {
      const bytes = frame(message);
      for (const size of [1, 3, 7, 100_000]) {
        if (bytes.length / size > 1_000) continue;
        const call = open(session, ECHO);
        for (let at = 0; at < bytes.length; at += size) call.send(bytes.subarray(at, at + size));
        call.half();
        const { body, trailers } = await call.ended;
        expect(body.equals(bytes)).toBe(true);
        expect(trailers['grpc-status']).toBe('0');
      }
    }
  });

  it('is answered before its client has said that nothing follows', async () => {
    const call = open((await started()).session(), ECHO);
    call.send(frame('hello'));
    await call.received(frame('hello').length);
    call.half();
    expect((await call.ended).trailers['grpc-status']).toBe('0');
  });

  it.each<[string, Uint8Array, Readonly<Record<string, string>>, number, RegExp]>([
    ['without a message', new Uint8Array(0), {}, 12, /has no message/],
    ['that ends within its message', frame('hello').subarray(0, 7), {}, 13, /ended within its message/],
    ['that ends within the prefix', frame('hello').subarray(0, 3), {}, 13, /ended within its message/],
    ['whose time limit is none', frame(''), { 'grpc-timeout': '1x' }, 13, /Invalid grpc-timeout value "1x"/],
    ['of too many bytes', frame(Buffer.alloc(1_000_001)), {}, 8, /larger than max \(1000001 vs. 1000000\)/],
    ['that claims too many bytes', Uint8Array.of(0, 255, 255, 255, 255), {}, 8, /larger than max \(4294967295/],
  ])('%s is refused', async (_what, body, header, code, text) => {
    const ended = await send((await started()).session(), ECHO, body, header);
    expect(ended.trailers['grpc-status']).toBe(String(code));
    expect(decodeURIComponent(String(ended.trailers['grpc-message']))).toMatch(text);
  });

  it('of an unknown method is UNIMPLEMENTED', async () => {
    const { trailers } = await send((await started()).session(), '/t.T/None', frame(''));
    expect(trailers).toMatchObject({ 'grpc-status': '12', 'grpc-message': 'unknown method /t.T/None' });
  });

  it('that is no gRPC is told so in HTTP', async () => {
    const { header } = await send((await started()).session(), ECHO, frame(''), { 'content-type': 'application/json' });
    expect(header[':status']).toBe(415);
  });

  it('that is no gRPC ends, also while its client has more to send', async () => {
    const call = open((await started()).session(), ECHO, { 'content-type': 'application/json' });
    call.send(frame(''));
    expect((await call.ended).header[':status']).toBe(415);
  });

  it('with more metadata than the bound is refused, one with less is not', async () => {
    const session = (await started()).session();
    await once(session, 'remoteSettings');
    const most = 'm'.repeat(16_000);
    expect((await send(session, ECHO, frame(''), { 'x-text': most })).trailers['grpc-status']).toBe('0');
    const stream = session.request({ ':method': 'POST', ':path': ECHO, 'x-text': `${most}${'m'.repeat(400)}` });
    stream.on('error', () => {});
    await new Promise((resolve) => stream.once('close', resolve));
    expect(stream.rstCode).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  });

  it('may be refused before any of it is read', async () => {
    const refusal = () => ({ code: 'UNAVAILABLE', message: 'no key' }) as const;
    const call = open((await started({ refusal })).session(), ECHO);
    expect((await call.ended).trailers).toMatchObject({
      'grpc-status': '14',
      'grpc-message': 'no key',
      'nereid-error': 'UNAVAILABLE',
    });
  });

  it.each([
    ['an error of ours, as its code', new NereidError('NOT_FOUND', 'gone', { field: 'a' }), '5', 'gone', 0],
    ['anything else, as INTERNAL, in the log', new Error('broken'), '13', 'broken', 1],
  ])('whose handler throws %s', async (_what, thrown, code, message, lines) => {
    for (const late of [false, true]) {
      const log: string[] = [];
      const handle = () => {
        if (late) return Promise.reject(thrown);
        throw thrown;
      };
      const destination = { write: (line: string) => void log.push(line) };
      await started(
        { log: createLog({ level: 'warn', destination }) },
        { kind: 'unary', path: THROW, compressed: false, handle },
      );
      const { trailers } = await send(fixture.session(), THROW, frame(''));
      expect(trailers).toMatchObject({ 'grpc-status': code, 'grpc-message': message });
      expect(log).toHaveLength(lines);
      await fixture.close();
    }
  });
});

describe('a client that leaves', () => {
  it('by a cancel aborts the signal', async () => {
    const { call, waiting } = waitCall();
    const opened = open((await started({}, call)).session(), WAIT);
    opened.send(frame(''));
    await waiting.arrived;
    opened.cancel();
    expect(await waiting.aborted).toBe('the client has left');
  });

  it('by closing its connection aborts the signal', async () => {
    const { call, waiting } = waitCall();
    const session = (await started({}, call)).session();
    open(session, WAIT).send(frame(''));
    await waiting.arrived;
    session.destroy();
    await waiting.aborted;
  });

  it('by its deadline gets DEADLINE_EXCEEDED, and the signal aborts', async () => {
    const { call, waiting } = waitCall();
    const session = (await started({}, call)).session();
    const ended = send(session, WAIT, frame(''), { 'grpc-timeout': '20m' });
    expect((await ended).trailers).toMatchObject({ 'grpc-status': '4', 'grpc-message': 'Deadline Exceeded' });
    expect(await waiting.aborted).toBe('the deadline of the call has passed');
  });
});

describe('the time left', () => {
  it.each([
    [undefined, 0, 0],
    ['1H', 3_599_000, 3_600_000],
    ['2S', 1_000, 2_000],
    ['99999999H', 0, 0],
  ])('of a call with grpc-timeout %s is from %d to %d ms', async (timeout, min, max) => {
    let left = -1;
    await started(
      {},
      {
        kind: 'unary',
        path: WAIT,
        compressed: false,
        handle(bytes, info) {
          left = info.msLeft();
          return { ok: true, value: bytes };
        },
      },
    );
    await send(fixture.session(), WAIT, frame(''), timeout === undefined ? {} : { 'grpc-timeout': timeout });
    expect(left).toBeGreaterThanOrEqual(min);
    expect(left).toBeLessThanOrEqual(max);
  });
});

describe('a stream', () => {
  it('sends and receives any number of messages', async () => {
    const call = open((await started({}, echoAll)).session(), CHAT);
    call.send(Buffer.concat([frame('a'), frame('')]));
    expect((await call.received(11)).toString('latin1')).toBe(
      Buffer.concat([frame('a'), frame('')]).toString('latin1'),
    );
    call.send(frame('b'));
    await call.received(17);
    call.half();
    expect((await call.ended).trailers['grpc-status']).toBe('0');
  });

  it('ends as its handler says, also while the client might send more', async () => {
    const error = { code: 'NOT_FOUND', message: 'gone', field: 'f' } as const;
    const call = open(
      (
        await started(
          {},
          chat(async (bidi) => bidi.fail(error)),
        )
      ).session(),
      CHAT,
    );
    expect((await call.ended).trailers).toMatchObject({ 'grpc-status': '5', 'nereid-error': 'NOT_FOUND; field=f' });
  });

  it('whose handler throws fails', async () => {
    const broken = chat(async () => {
      throw new NereidError('INVALID_ARG', 'no');
    });
    const call = open((await started({}, broken)).session(), CHAT);
    expect((await call.ended).trailers).toMatchObject({ 'grpc-status': '3', 'grpc-message': 'no' });
  });

  it('is not read while its messages are not', async () => {
    let taken = 0;
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const slow = chat(async (bidi) => {
      await gate;
      for await (const message of bidi.messages) taken += message.length;
    });
    const bytesInFlight = createBytesInFlight(1e9);
    const call = open((await started({ bytesInFlight }, slow)).session(), CHAT);
    const message = Buffer.alloc(500_000);
    for (let at = 0; at < 60; at++) call.send(frame(message));
    call.half();
    // What is unread, and what was on its way when that was full.
    await expect.poll(() => bytesInFlight.held).toBeGreaterThanOrEqual(4_000_000);
    expect(bytesInFlight.held).toBeLessThan(8_000_000);
    go();
    expect((await call.ended).trailers['grpc-status']).toBe('0');
    expect(taken).toBe(30_000_000);
  });

  it('a write says when the client does not keep up, and when it does again', async () => {
    let waited = 0;
    const fast = chat(async (bidi) => {
      for (let at = 0; at < 40; at++) {
        const unread = bidi.write(Buffer.alloc(100_000));
        if (unread === undefined) continue;
        waited++;
        await unread;
      }
    });
    const call = open((await started({}, fast)).session(), CHAT);
    call.pause();
    call.half();
    call.resume();
    const { body, trailers } = await call.ended;
    expect([body.length, trailers['grpc-status']]).toEqual([40 * 100_005, '0']);
    expect(waited).toBeGreaterThan(0);
  });

  it('a message that cannot be read ends it', async () => {
    const call = open((await started({}, echoAll)).session(), CHAT, { 'grpc-encoding': 'gzip' });
    call.send(frame('x', 1));
    expect((await call.ended).trailers['grpc-status']).toBe('13');
  });
});
