/** gRPC over node:http2 (docs/decisions/0016-grpc-over-node-http2.md says why by hand). */
import { setMaxListeners } from 'node:events';
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { BytesInFlight } from '@nereid/caller';
import { LIMITS } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { type DoorTls, doorTlsOptions, watchDoorTls } from '../door-tls.ts';
import { listenError } from '../listen-error.ts';
import { listenerHost } from '../listener-url.ts';
import { takeNoMore } from './call-reply.ts';
import { SHUTTING_DOWN } from './call-status.ts';
import { type ConnectionCare, type ConnectionRules, careForConnection } from './connection-care.ts';
import { type CallParts, refuseUnknown, serveCall } from './http2-call.ts';
import type { CallMetadata, GrpcCall, GrpcTransport } from './transport.ts';

export interface Http2TransportOptions {
  readonly calls: readonly GrpcCall[];
  /** Why a call is not taken from this client, before any of it is read. */
  readonly refusal: (call: GrpcCall, metadata: CallMetadata) => ErrorInfo | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly address: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Over TLS only. */
  readonly tls?: DoorTls;
  readonly rules: ConnectionRules;
  readonly compressionLevel: string;
  readonly message_bytes_max: number;
  readonly bytesInFlight: BytesInFlight;
  /** A client that takes nothing of its answer for so long loses its call. */
  readonly answer_unread_timeout_ms?: number;
  /** Calls that one connection may have open. */
  readonly calls_per_connection_max: number;
}

/** What a client may send of one call, and of all calls of a connection, before it is read. */
const CALL_WINDOW_BYTES = 1_048_576;
const CONNECTION_WINDOW_BYTES = 16_777_216;

/** How long a client may take to close its side after the good-bye. */
const GOODBYE_US = 500_000;

/** What is kept of an open connection. */
interface Connection {
  readonly care: ConnectionCare;
  readonly parts: CallParts;
}

/**
 * A server of gRPC calls. It is *serving* until `drain`, then *draining* (a new call is refused, also
 * on a new connection) until every call has ended or the deadline has passed, then *closed*.
 */
export function createHttp2Transport(options: Http2TransportOptions): GrpcTransport {
  const { clock, log } = options;
  const byPath = new Map(options.calls.map((call) => [call.path, call]));
  const sockets = new Set<Socket>();
  const connections = new Map<Http2Session, Connection>();
  const streams = new Set<ServerHttp2Stream>();
  const stopping = new AbortController();
  // Each stream has its listener.
  setMaxListeners(0, stopping.signal);
  let idle: (() => void) | undefined;
  let tlsWatch: Timer | undefined;

  const refusal: CallParts['refusal'] = (call, metadata) =>
    stopping.signal.aborted ? SHUTTING_DOWN : options.refusal(call, metadata);

  const parts = {
    clock,
    log,
    refusal,
    bytesInFlight: options.bytesInFlight,
    message_bytes_max: options.message_bytes_max,
    answer_unread_timeout_ms: options.answer_unread_timeout_ms ?? LIMITS.answer_unread_timeout_ms,
    compressionLevel: options.compressionLevel,
    stopping: stopping.signal,
  };
  const server = http2Server(options);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('session', (session) => {
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    const care = careForConnection(session, options.rules, clock);
    connections.set(session, { care, parts: { ...parts, sent: care.sent } });
    session.once('close', () => connections.delete(session));
  });
  server.on('sessionError', (failure) => log.debug({ err: failure }, 'gRPC connection failed'));
  server.on('tlsClientError', (failure: Error) => log.debug({ err: failure }, 'TLS handshake failed'));
  server.on('stream', (stream, header) => {
    const connection = stream.session === undefined ? undefined : connections.get(stream.session);
    // It comes with the end of the stream, which 'close' tells as well.
    stream.on('error', (failure) => log.debug({ err: failure }, 'gRPC call broke off'));
    // Its connection was cut in the same turn.
    if (connection === undefined) return;
    streams.add(stream);
    connection.care.callOpened();
    stream.once('close', () => {
      streams.delete(stream);
      connection.care.callClosed();
      if (streams.size === 0) idle?.();
    });
    serve(byPath, stream, header, connection.parts);
  });

  const drain = () => {
    if (!stopping.signal.aborted) stopping.abort('the server stops');
  };

  return {
    async listen() {
      const listening = await listen(server, options);
      if (options.tls !== undefined) {
        tlsWatch = watchDoorTls(options.tls, server as unknown as Http2SecureServer, clock, log);
      }
      return listening;
    },
    drain,
    async close(deadlineMs) {
      tlsWatch?.cancel();
      drain();
      await allEnded(streams, deadlineMs, clock, (resolve) => {
        idle = resolve;
      });
      await closeServer(server, connections.keys(), streams.size === 0, sockets, clock);
    },
  };
}

function serve(
  byPath: ReadonlyMap<string, GrpcCall>,
  stream: ServerHttp2Stream,
  header: IncomingHttpHeaders,
  parts: CallParts,
): void {
  if (!isGrpc(header)) {
    stream.respond({ ':status': 415 }, { endStream: true });
    takeNoMore(stream);
    return;
  }
  const path = header[':path'] ?? '';
  const call = byPath.get(path);
  if (call === undefined) refuseUnknown(stream, path, parts);
  else serveCall(call, stream, header, parts);
}

function http2Server({ tls, calls_per_connection_max }: Http2TransportOptions): Http2Server {
  const options: ServerOptions = {
    settings: {
      initialWindowSize: CALL_WINDOW_BYTES,
      maxConcurrentStreams: calls_per_connection_max,
      maxHeaderListSize: LIMITS.grpc_metadata_bytes_max,
    },
    // Node refuses calls at random where it thinks that a connection takes too much; the windows bound it.
    maxSessionMemory: Number.MAX_SAFE_INTEGER,
  };
  if (tls === undefined) return createServer(options);
  // One interface for what both have.
  return createSecureServer({ ...options, ...doorTlsOptions(tls) }) as unknown as Http2Server;
}

/** Of the POSTs with gRPC's content type; what is none is told so in HTTP, as gRPC over HTTP/2 has it. */
function isGrpc(header: IncomingHttpHeaders): boolean {
  return header[':method'] === 'POST' && (header['content-type']?.startsWith('application/grpc') ?? false);
}

function listen(server: Http2Server, { address, port }: Http2TransportOptions): Promise<{ readonly url: string }> {
  return new Promise((resolve, reject) => {
    const refuse = (cause: Error) => reject(listenError(cause, address, port, 'grpc'));
    server.once('error', refuse);
    server.listen(port, address, () => {
      server.off('error', refuse);
      resolve({ url: listenerHost(server.address() as AddressInfo) });
    });
  });
}

async function allEnded(
  streams: ReadonlySet<unknown>,
  deadlineMs: number,
  clock: Clock,
  onIdle: (resolve: () => void) => void,
): Promise<void> {
  if (streams.size === 0 || deadlineMs <= 0) return;
  await new Promise<void>((resolve) => {
    const timer = clock.at(clock.nowUs() + deadlineMs * 1000, resolve);
    onIdle(() => {
      timer.cancel();
      resolve();
    });
  });
}

/** Says good-bye to clients; where calls are left (not `calm`), cuts them. */
function closeServer(
  server: Http2Server,
  sessions: Iterable<Http2Session>,
  calm: boolean,
  sockets: Iterable<Socket>,
  clock: Clock,
): Promise<void> {
  return new Promise((resolve) => {
    if (!server.listening) {
      resolve();
      return;
    }
    const timer = clock.at(clock.nowUs() + GOODBYE_US, () => {
      for (const socket of sockets) socket.destroy();
    });
    server.close(() => {
      timer.cancel();
      resolve();
    });
    for (const session of sessions) {
      if (calm) session.close();
      else session.destroy();
    }
  });
}
