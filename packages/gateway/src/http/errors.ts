import { type ErrorInfo, httpStatus } from '@nereid/protocol';
import type { FastifyReply } from 'fastify';
import { errorHeader } from '../error-header.ts';

/** A full queue drains and an owner is found within a few seconds. */
const RETRY_STATUS = 503;
const RETRY_AFTER_S = '1';

/**
 * An error on Triton's routes: exactly `{"error": text}` with the code's status, and code, field and
 * reason in the header `Nereid-Error: CODE; field=…; reason=…`. `status` replaces the code's own.
 */
export function sendError(reply: FastifyReply, error: ErrorInfo, status = httpStatus(error.code)): void {
  reply.code(status).header('Nereid-Error', errorHeader(error));
  if (status === RETRY_STATUS) retrySoon(reply);
  sendJson(reply, JSON.stringify({ error: error.message }));
}

/** Where the same request will have another answer soon. */
export function retrySoon(reply: FastifyReply): void {
  reply.header('Retry-After', RETRY_AFTER_S);
}

/** Sends JSON text. As bytes, since Fastify would add a charset to the content type of a string. */
export function sendJson(reply: FastifyReply, text: string): void {
  reply.header('Content-Type', 'application/json').send(Buffer.from(text));
}
