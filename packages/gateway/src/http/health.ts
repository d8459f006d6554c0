import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { sendError } from './errors.ts';
import { modelOf } from './model-path.ts';

/** GET /v2/health/live: 200 or 400, no body. */
export function live(gateway: Gateway, _request: FastifyRequest, reply: FastifyReply): void {
  sendHealth(reply, gateway.live());
}

/** GET /v2/health/ready: 200 or 400, no body. */
export function ready(gateway: Gateway, _request: FastifyRequest, reply: FastifyReply): void {
  sendHealth(reply, gateway.ready());
}

/** GET /v2/models/{m}[/versions/{v}]/ready: one text for every reason not to be (http_server.cc). */
export function modelReady(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  if (gateway.modelReady(name, version)) sendHealth(reply, true);
  else sendError(reply, { code: 'UNAVAILABLE', message: 'Model version not ready' }, 400);
}

function sendHealth(reply: FastifyReply, healthy: boolean): void {
  reply
    .code(healthy ? 200 : 400)
    .header('Content-Type', 'text/plain')
    .send(EMPTY);
}

/** Bytes, since Fastify would add a charset to the content type of a string. */
const EMPTY = Buffer.alloc(0);
