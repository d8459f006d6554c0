/** A transport with calls of a test, and HTTP/2 by hand to talk to it; only tests import this. */
import {
  type ClientHttp2Session,
  connect,
  type IncomingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2';
import { createBytesInFlight } from '@nereid/caller';
import { GRPC_DEFAULTS } from '@nereid/config';
import { createLog, type Log, systemClock } from '@nereid/runtime';
import { createHttp2Transport, type Http2TransportOptions } from './http2-transport.ts';
import type { GrpcCall, GrpcTransport } from './transport.ts';

export interface Http2Fixture {
  readonly transport: GrpcTransport;
  readonly url: string;
  /** A connection of its own, cut with the fixture. */
  session(options?: SecureClientSessionOptions): ClientHttp2Session;
  close(deadlineMs?: number): Promise<void>;
}

export interface Http2FixtureOptions extends Partial<Omit<Http2TransportOptions, 'rules' | 'calls'>> {
  readonly rules?: Partial<Http2TransportOptions['rules']>;
  readonly log?: Log;
}

export async function http2Fixture(
  calls: readonly GrpcCall[],
  { rules, ...options }: Http2FixtureOptions = {},
): Promise<Http2Fixture> {
  const transport = createHttp2Transport({
    calls,
    refusal: () => undefined,
    clock: systemClock(),
    log: createLog({ level: 'silent' }),
    address: '127.0.0.1',
    port: 0,
    compressionLevel: 'none',
    message_bytes_max: 1_000_000,
    bytesInFlight: createBytesInFlight(1e9),
    calls_per_connection_max: 100,
    ...options,
    rules: { ...GRPC_DEFAULTS.rules, ...rules },
  });
  const { url } = await transport.listen();
  const sessions: ClientHttp2Session[] = [];
  return {
    transport,
    url,
    session(given) {
      const session = connect(`${options.tls === undefined ? 'http' : 'https'}://${url}`, given);
      // A connection that is cut is what some tests wait for.
      session.on('error', () => {});
      sessions.push(session);
      return session;
    },
    async close(deadlineMs = 0) {
      for (const session of sessions) session.destroy();
      await transport.close(deadlineMs);
    },
  };
}

/** A message behind its prefix. */
export function frame(message: Uint8Array | string, compressed = 0): Buffer {
  const bytes = Buffer.from(message);
  const prefix = Buffer.alloc(5);
  prefix[0] = compressed;
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

/** What came back of a call. */
export interface Ended {
  readonly header: IncomingHttpHeaders;
  /** Of an answer without messages, the header. */
  readonly trailers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface OpenedCall {
  send(bytes: Uint8Array): void;
  /** Nothing more is sent. */
  half(): void;
  cancel(): void;
  /** Waits for so many bytes of the answer. */
  received(bytes: number): Promise<Buffer>;
  pause(): void;
  resume(): void;
  /** Resolves when the call is over, however. */
  readonly ended: Promise<Ended>;
}

export function open(
  session: ClientHttp2Session,
  path: string,
  header: Readonly<Record<string, string>> = {},
): OpenedCall {
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...header,
  });
  const chunks: Buffer[] = [];
  let got: IncomingHttpHeaders = {};
  let trailers: IncomingHttpHeaders | undefined;
  let waiter: (() => void) | undefined;
  stream.on('error', () => {});
  stream.on('response', (headers) => {
    got = headers;
  });
  stream.on('trailers', (headers) => {
    trailers = headers;
  });
  stream.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    waiter?.();
  });
  const ended = new Promise<Ended>((resolve) => {
    stream.once('close', () => resolve({ header: got, trailers: trailers ?? got, body: Buffer.concat(chunks) }));
  });
  return {
    send: (bytes) => void stream.write(bytes),
    half: () => void stream.end(),
    cancel: () => stream.close(8),
    received: (bytes) =>
      new Promise((resolve) => {
        waiter = () => {
          const whole = Buffer.concat(chunks);
          if (whole.length >= bytes) resolve(whole);
        };
        waiter();
      }),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    ended,
  };
}

/** One message, one answer. */
export function send(
  session: ClientHttp2Session,
  path: string,
  body: Uint8Array,
  header: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const call = open(session, path, header);
  call.send(body);
  call.half();
  return call.ended;
}
