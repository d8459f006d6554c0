import { METHODS } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { LIMITS } from '@nereid/config';
import { errorInfo, STOPPING } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { type FastifyInstance, fastify } from 'fastify';
import type { Gateway } from '../gateway.ts';
import type { Jobs } from '../jobs.ts';
import { listenError } from '../listen-error.ts';
import { listenerUrl } from '../listener-url.ts';
import type { Services } from '../services.ts';
import { createClientErrorHandler, refuseOnSocket } from './client-error.ts';
import { createClientSignals } from './client-signal.ts';
import { currentAnswer } from './current-answer.ts';
import { sendError } from './errors.ts';
import { createInflate } from './inflate.ts';
import { rawPath } from './raw-path.ts';
import { addRoutes } from './routes.ts';

export interface HttpServerOptions {
  readonly gateway: Gateway;
  readonly services: Services;
  /** Without it (no Redis) the routes of jobs answer 503. */
  readonly jobs?: Jobs | undefined;
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

/** The KServe v2 HTTP endpoint: decodes, calls the gateway, encodes. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { gateway, clock, log } = options;
  const requestTimeoutMs = options.requestTimeoutMs ?? LIMITS.request_timeout_ms;
  let closing = false;
  const app = fastify({
    logger: false,
    exposeHeadRoutes: false,
    // Requests on connections still open while stopping get the gateway's own answer.
    return503OnClosing: false,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? LIMITS.keep_alive_timeout_ms,
    http: {
      headersTimeout: Math.min(options.headersTimeoutMs ?? LIMITS.header_timeout_ms, requestTimeoutMs),
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, requestTimeoutMs),
      maxHeaderSize: options.headerBytesMax ?? LIMITS.header_bytes_max,
    },
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    rewriteUrl: (request) => rawPath(request.url ?? '/'),
    clientErrorHandler: createClientErrorHandler(log),
  });
  const connections = trackConnections(app);
  readBodiesInHandlers(app);
  app.setErrorHandler((thrown, request, reply) => {
    log.error({ err: thrown, path: request.url }, 'request handler failed');
    sendError(reply, errorInfo(thrown));
  });
  addRoutes(app, {
    gateway,
    services: options.services,
    jobs: options.jobs,
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
    clientSignal: createClientSignals(),
    closing: () => closing,
  });

  return {
    async listen() {
      const { address, port } = options;
      try {
        await app.listen({ host: address, port });
        return { url: listenerUrl(app.server.address() as AddressInfo) };
      } catch (cause) {
        throw listenError(cause, address, port, 'http');
      }
    },
    async close(deadlineMs) {
      closing = true;
      const timer = clock.at(clock.nowUs() + deadlineMs * 1000, () => app.server.closeAllConnections());
      for (const socket of connections) endUnlessRunning(socket);
      await app.close();
      timer.cancel();
    },
    inject: app.inject.bind(app) as FastifyInstance['inject'],
  };
}

/**
 * Ends a connection without a whole request on it. Node would wait for what has sent nothing or a
 * part of a request, as long as that may take to come, so one slow client would hold up every stop.
 */
function endUnlessRunning(socket: Socket): void {
  const current = currentAnswer(socket);
  if (current === null) socket.destroySoon();
  else if (!current.req.complete && !current.headersSent) refuseOnSocket(socket, STOPPING);
}

function trackConnections(app: FastifyInstance): ReadonlySet<Socket> {
  const connections = new Set<Socket>();
  app.server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  return connections;
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
