import { type ErrorInfo, httpStatus } from '@nereid/protocol';
import type { FastifyReply } from 'fastify';
import { errorHeader } from '../error-header.ts';
import { retrySoon, sendJson } from './errors.ts';

/** An error on our own routes: `{error, code, field?}`, with a hint when to come again where that helps. */
export function sendOwnError(reply: FastifyReply, error: ErrorInfo, status = httpStatus(error.code, true)): void {
  const { message, code, field } = error;
  reply.code(status).header('Nereid-Error', errorHeader(error));
  if (code === 'UNAVAILABLE') retrySoon(reply);
  sendJson(reply, JSON.stringify({ error: message, code, ...(field === undefined ? {} : { field }) }));
}
