import { type ErrorInfo, httpStatus, JOB_TOO_LARGE, REDIS_FULL } from '@nereid/protocol';
import type { FastifyReply } from 'fastify';
import { errorHeader } from '../error-header.ts';
import { retrySoon, sendJson } from './errors.ts';

/** An error on our own routes: `{error, code, field?}`, with a hint when to come again where that helps. */
export function sendOwnError(reply: FastifyReply, error: ErrorInfo, status?: number): void {
  if (error.code === 'UNAVAILABLE') retrySoon(reply);
  sendFinalError(reply, error, status);
}

/** The error that a job ended with: whoever asks again is told the same. */
export function sendFinalError(reply: FastifyReply, error: ErrorInfo, status = ownStatus(error)): void {
  const { message, code, field } = error;
  reply.code(status).header('Nereid-Error', errorHeader(error));
  sendJson(reply, JSON.stringify({ error: message, code, ...(field === undefined ? {} : { field }) }));
}

/** Of what is too much: for a job of its model, or for Redis now. */
const STATUS_BY_REASON: Readonly<Record<string, number>> = { [JOB_TOO_LARGE]: 413, [REDIS_FULL]: 429 };

function ownStatus({ code, reason = '' }: ErrorInfo): number {
  return STATUS_BY_REASON[reason] ?? httpStatus(code, true);
}
