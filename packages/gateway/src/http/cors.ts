import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

const ANY = '*';
const METHODS = 'GET, POST, DELETE';
/** What a page may read of an answer beside what every page may. */
const EXPOSED =
  'Inference-Header-Content-Length, Nereid-Error, Nereid-Request-Id, Retry-After, Location, Preference-Applied, Content-Encoding';
/** How long a browser may remember what it was told before a request. */
const PREFLIGHT_AGE_S = '600';
const NO_CONTENT_STATUS = 204;

/**
 * Lets web pages of these origins call the API (the Fetch standard's CORS protocol, without
 * credentials). By hand, since answers to infer are written past Fastify's own replies, whose headers
 * `@fastify/cors` sets; a hook that calls back costs a microsecond and is there only where CORS is on.
 */
export function addCors(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const any = origins.includes(ANY);
  const allowed = new Set(origins);
  app.addHook('onRequest', (request, reply, next) => {
    const { origin } = request.headers;
    // An answer for one origin must not be given to another from a cache.
    if (!any) reply.raw.setHeader('Vary', 'Origin');
    if (origin === undefined || !(any || allowed.has(origin))) {
      next();
      return;
    }
    reply.raw.setHeader('Access-Control-Allow-Origin', any ? ANY : origin);
    if (isPreflight(request)) answerPreflight(request, reply);
    else {
      reply.raw.setHeader('Access-Control-Expose-Headers', EXPOSED);
      next();
    }
  });
}

/** A browser's question before a request: no part of the API, and not restricted by it. */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

function answerPreflight({ headers }: FastifyRequest, reply: FastifyReply): void {
  const { raw } = reply.hijack();
  const wanted = headers['access-control-request-headers'];
  setAll(raw, { 'Access-Control-Allow-Methods': METHODS, 'Access-Control-Max-Age': PREFLIGHT_AGE_S });
  // Any: the server judges what it is sent.
  if (wanted !== undefined) raw.setHeader('Access-Control-Allow-Headers', wanted);
  raw.writeHead(NO_CONTENT_STATUS).end();
}

function setAll(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
}
