import { type IncomingMessage, METHODS } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type BytesInFlight, createBytesInFlight } from '@nereid/caller';
import { LIMITS } from '@nereid/config';
import { type ErrorInfo, errorInfo } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Bulk } from '../bulk.ts';
import type { BullBoard } from '../bull-board.ts';
import { type DoorTls, doorTlsOptions, watchDoorTls } from '../door-tls.ts';
import type { Gateway } from '../gateway.ts';
import type { ForwardsHeader } from '../header-forward.ts';
import type { Jobs } from '../jobs.ts';
import type { Journal } from '../journal.ts';
import { listenError } from '../listen-error.ts';
import { listenerUrl } from '../listener-url.ts';
import { isLoopback } from '../loopback.ts';
import { adminKey, type RestrictedApis } from '../restricted.ts';
import type { Services } from '../services.ts';
import { createSharedMemory, type SharedMemory } from '../shared-memory.ts';
import { createClientErrorHandler } from './client-error.ts';
import { createClientSignals } from './client-signal.ts';
import { trackConnections } from './connections.ts';
import { addCors } from './cors.ts';
import { sendError } from './errors.ts';
import { createInflate } from './inflate.ts';
import { stopSignal } from './job-events.ts';
import { rawPath } from './raw-path.ts';
import { createRequestBytes } from './request-bytes.ts';
import { addRoutes } from './routes.ts';
import { createUnreadAnswers } from './unread-answers.ts';

export interface HttpServerOptions {
  readonly gateway: Gateway;
  readonly services: Services;
  /** Without it (no Redis) the routes of jobs answer 503. */
  readonly jobs?: Jobs | undefined;
  /** As `jobs`. */
  readonly bulk?: Bulk | undefined;
  /** As `jobs`. */
  readonly journal?: Journal | undefined;
  /** What those answers say: how to get a Redis. */
  readonly redisHint?: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Name and version that the server's metadata tell. */
  readonly serverId: string;
  readonly version: string;
  readonly address: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** A larger body is refused with 400. */
  readonly maxInputBytes: number;
  /** Groups of routes that need a key; none without it. */
  readonly restricted?: RestrictedApis | undefined;
  /** Of calls of ours that write; without it only callers on this machine may make them. */
  readonly adminKey?: string | undefined;
  /** Serves that page at `/bull-board/`. */
  readonly bullBoard?: BullBoard | undefined;
  /** Headers that models see as parameters of infer requests; none without it. */
  readonly forwards?: ForwardsHeader | undefined;
  /** Serves HTTP over TLS only. */
  readonly tls?: DoorTls | undefined;
  /** Origins whose web pages may call, or `*`; none without it. */
  readonly corsOrigins?: readonly string[] | undefined;
  /** Of this gateway, whatever door they came by. Without it nothing can be registered. */
  readonly sharedMemory?: SharedMemory | undefined;
  /** Of this gateway, whatever door they came by; of this server alone without it. */
  readonly bytesInFlight?: BytesInFlight | undefined;
  /** How long a client may leave its answers unread. */
  readonly answerUnreadTimeoutMs?: number;
  /** All header lines of a request together; more is 431. */
  readonly headerBytesMax?: number;
  /** From a connection's first byte to the end of the header; longer is 408. */
  readonly headersTimeoutMs?: number;
  /** The same to the end of the body. */
  readonly requestTimeoutMs?: number;
  /** How long a connection may stay open between two requests. */
  readonly keepAliveTimeoutMs?: number;
}

export interface HttpServer {
  /** Throws UNAVAILABLE, with the fix in its text, where the address cannot be had. */
  listen(): Promise<{ readonly url: string }>;
  /**
   * Takes no more connections, lets running requests finish and ends each connection after its
   * answer; one whose request has not come as a whole is ended at once. After the deadline what is left is cut, which cancels it. Drain the gateway first.
   */
  close(deadlineMs: number): Promise<void>;
  /** A request without a socket, for tests. */
  readonly inject: FastifyInstance['inject'];
}

const REDIS_HINT = 'install redis-server 7.0 or later and start again, or name a running one by --redis-url';
/** How often it is looked at whether a header or a body is overdue. */
const CHECK_INTERVAL_MS = 5_000;
/** A model's name may be as long as a folder's; the header's own limit bounds the path. */
const PARAM_LENGTH_MAX = LIMITS.header_bytes_max;

const NO_PATH: ErrorInfo = { code: 'NOT_FOUND', message: 'Not Found' };

/** The KServe v2 HTTP endpoint: decodes, calls the gateway, encodes. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { clock, log, tls } = options;
  const stopping = stopSignal();
  const app = createApp(options);
  const unread = createUnreadAnswers({
    clock,
    log,
    // Assigned below, before the first of them.
    connections: () => connections.open,
    timeoutMs: options.answerUnreadTimeoutMs ?? LIMITS.answer_unread_timeout_ms,
  });
  const connections = trackConnections(app.server, tls !== undefined, unread.watch);
  let tlsWatch: Timer | undefined;
  addRoutes(app, {
    gateway: options.gateway,
    services: options.services,
    jobs: options.jobs,
    bulk: options.bulk,
    journal: options.journal,
    redisHint: options.redisHint ?? REDIS_HINT,
    log,
    serverId: options.serverId,
    version: options.version,
    inputBytesMax: options.maxInputBytes,
    inflate: createInflate(options.maxInputBytes),
    requestLimits: {
      json_depth_max: LIMITS.json_depth_max,
      elements_max: LIMITS.json_elements_max,
      bytes_max: options.maxInputBytes,
    },
    restricted: options.restricted ?? new Map(),
    adminKey: adminKey(options.adminKey),
    onLoopback: isLoopback(options.address),
    bullBoard: options.bullBoard,
    forwards: options.forwards,
    sharedMemory: options.sharedMemory ?? createSharedMemory(false),
    openBytes: createRequestBytes(options.bytesInFlight ?? createBytesInFlight(LIMITS.bytes_in_flight_max)),
    clientSignal: createClientSignals(),
    closing: () => stopping.signal.aborted,
    stopping: stopping.signal,
  });

  return {
    async listen() {
      const { address, port } = options;
      try {
        await app.listen({ host: address, port });
      } catch (cause) {
        throw listenError(cause, address, port, 'http');
      }
      if (tls !== undefined) tlsWatch = watchDoorTls(tls, app.server as TlsServer, clock, log);
      return { url: listenerUrl(app.server.address() as AddressInfo, tls === undefined ? 'http' : 'https') };
    },
    async close(deadlineMs) {
      stopping.abort();
      tlsWatch?.cancel();
      unread.close();
      const timer = clock.at(clock.nowUs() + deadlineMs * 1000, connections.cut);
      connections.endIdle();
      await app.close();
      timer.cancel();
    },
    inject: app.inject.bind(app) as FastifyInstance['inject'],
  };
}

/** Fastify without routes, set up so that handlers see requests as Triton's do. */
function createApp(options: HttpServerOptions): FastifyInstance {
  const { log, tls } = options;
  const requestTimeoutMs = options.requestTimeoutMs ?? LIMITS.request_timeout_ms;
  const http = {
    headersTimeout: Math.min(options.headersTimeoutMs ?? LIMITS.header_timeout_ms, requestTimeoutMs),
    connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, requestTimeoutMs),
    maxHeaderSize: options.headerBytesMax ?? LIMITS.header_bytes_max,
    // Triton does not ask for it, and Node's refusal has no body.
    requireHostHeader: false,
  };
  const common = {
    logger: false,
    exposeHeadRoutes: false,
    // Requests on connections still open while stopping get the gateway's own answer.
    return503OnClosing: false,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? LIMITS.keep_alive_timeout_ms,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    rewriteUrl: (request: IncomingMessage) => rawPath(request.url ?? '/'),
    clientErrorHandler: createClientErrorHandler(log),
    // The router's own, of a request target that is no path: `*`.
    frameworkErrors: (_error: unknown, _request: FastifyRequest, reply: FastifyReply) => sendError(reply, NO_PATH),
  };
  const app =
    tls === undefined
      ? fastify({ ...common, http })
      : (fastify({ ...common, https: { ...http, ...doorTlsOptions(tls) } }) as unknown as FastifyInstance);
  readBodiesInHandlers(app);
  // Any expectation but 100-continue, which Node would refuse without a body: it may be passed over (RFC 9110, 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  addCors(app, options.corsOrigins ?? []);
  app.setErrorHandler((thrown, request, reply) => {
    log.error({ err: thrown, path: request.url }, 'request handler failed');
    sendError(reply, errorInfo(thrown));
  });
  return app;
}

/**
 * Tells Fastify that no method has a body. Triton never looks at a request's content type, while
 * Fastify refuses a malformed one with 415; and an unknown model is answered before its body has
 * come. Handlers that want the body read it (read-body.ts).
 */
function readBodiesInHandlers(app: FastifyInstance): void {
  for (const method of ['DELETE', 'OPTIONS', 'PATCH', 'PUT', 'POST', 'QUERY']) {
    if (METHODS.includes(method)) app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  }
}
