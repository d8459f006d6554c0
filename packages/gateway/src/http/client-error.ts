import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorInfo, httpStatus } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import { errorHeader } from '../error-header.ts';
import { currentAnswer, endAfterAnswers } from './current-answer.ts';

/** So long may a client go on sending after its refusal; what comes is thrown away. */
const LINGER_MS_MAX = 2_000;

interface ClientError extends Error {
  readonly code?: string;
}

/**
 * Answers what is no HTTP request, one too large in its header, and one that did not come in time;
 * then ends the connection, since where the next request would begin is not known. A mistake behind
 * requests that wait for their answers has no answer of its own, which the client would take for
 * one of theirs: theirs are sent, then the connection ends. A `Content-Length` that is too short
 * makes such a mistake, and what is wrong with the body that it cuts tells the client.
 */
export function createClientErrorHandler(log: Log): (error: ClientError, socket: Socket) => void {
  const ending = new WeakSet<Socket>();
  return (error, socket) => {
    if (error.code === 'ECONNRESET' || socket.destroyed || ending.has(socket)) return;
    ending.add(socket);
    log.debug({ err: error }, 'bad request line or header');
    const current = currentAnswer(socket);
    if (current !== null && (current.headersSent || current.req.complete)) {
      // It has left in the middle of a request, as at any other time.
      if (error.code === 'HPE_INVALID_EOF_STATE') socket.destroySoon();
      else endAfterAnswers(socket);
      return;
    }
    const { status, message } = describe(error);
    writeRefusal(socket, { code: 'INVALID_ARG', message }, status);
    endOnceSent(socket);
  };
}

function describe(error: ClientError): { readonly status: number; readonly message: string } {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, message: 'the request header is larger than this server takes' };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, message: 'the request did not arrive in time' };
    default:
      return { status: 400, message: `malformed HTTP request: ${error.message}` };
  }
}

/**
 * Ends the server's side at once, and the connection when the client has sent the rest. Were it ended while bytes
 * still come, these would reset it, and the client might never see its answer.
 */
function endOnceSent(socket: Socket): void {
  socket.end();
  const cut = setTimeout(() => socket.destroy(), LINGER_MS_MAX);
  cut.unref();
  socket.once('close', () => clearTimeout(cut));
}

/** Answers a request that has not come to its end, past Fastify, and ends its connection. */
export function refuseOnSocket(socket: Socket, error: ErrorInfo): void {
  writeRefusal(socket, error, httpStatus(error.code));
  socket.destroySoon();
}

function writeRefusal(socket: Socket, error: ErrorInfo, status: number): void {
  const body = JSON.stringify({ error: error.message });
  socket.write(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Nereid-Error: ${errorHeader(error)}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
