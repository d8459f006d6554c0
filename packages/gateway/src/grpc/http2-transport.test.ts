import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { connect } from 'node:net';
import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { CANCELLED, NereidError } from '@nereid/protocol';
import { createLog } from '@nereid/runtime';
import { afterEach, describe, expect, it } from 'vitest';
import { createBytesInFlight } from '../bytes-in-flight.ts';
import { frame, type Http2Fixture, type Http2FixtureOptions, http2Fixture, open, send } from './http2-fixture.ts';
import type { BidiCall, GrpcCall } from './transport.ts';

const ECHO = '/t.T/Echo';
const WAIT = '/t.T/Wait';
const CHAT = '/t.T/Chat';
const THROW = '/t.T/Throw';

let fixture: Http2Fixture;
afterEach(() => fixture.close());

/** What `Wait` waits for: a signal that aborts, or a release. */
interface Waiting {
  readonly arrived: Promise<void>;
  readonly aborted: Promise<unknown>;
  release(): void;
}

function waitCall(): { readonly call: GrpcCall; readonly waiting: Waiting } {
  let arrive: () => void;
  let abort: (why: unknown) => void;
  let release = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const aborted = new Promise((resolve) => {
    abort = resolve;
  });
  const call: GrpcCall = {
    kind: 'unary',
    path: WAIT,
    compressed: false,
    handle: (bytes, { signal }) =>
      new Promise((resolve) => {
        release = () => resolve({ ok: true, value: bytes });
        signal.addEventListener('abort', () => {
          abort(signal.reason);
          resolve({ ok: false, error: CANCELLED });
        });
        arrive();
      }),
  };
  return { call, waiting: { arrived, aborted, release: () => release() } };
}

const echo: GrpcCall = { kind: 'unary', path: ECHO, compressed: true, handle: (bytes) => ({ ok: true, value: bytes }) };

const chat = (handle: (call: BidiCall) => Promise<void>): GrpcCall => ({
  kind: 'stream',
  path: CHAT,
  compressed: true,
  handle,
});

const echoAll = chat(async (call) => {
  for await (const message of call.messages) await call.write(message);
});

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

describe('compression', () => {
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
