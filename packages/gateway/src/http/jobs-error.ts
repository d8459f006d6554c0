import { type ErrorInfo, httpStatus } from '@nereid/protocol';
import type { FastifyReply } from 'fastify';
import { errorHeader, sendJson } from './errors.ts';

const RETRY_AFTER_S = '1';

/** An error on our own routes: `{error, code, field?}`, with a hint when to come again where that helps. */
export function sendOwnError(reply: FastifyReply, error: ErrorInfo, status = httpStatus(error.code, true)): void {
  const { message, code, field } = error;
  reply.code(status).header('Nereid-Error', errorHeader(error));
  if (code === 'UNAVAILABLE') reply.header('Retry-After', RETRY_AFTER_S);
  sendJson(reply, JSON.stringify({ error: message, code, ...(field === undefined ? {} : { field }) }));
}

/** Where the same request will have another answer soon. */
export function retrySoon(reply: FastifyReply): void {
  reply.header('Retry-After', RETRY_AFTER_S);
}
