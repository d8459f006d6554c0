import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Log } from '@nereid/runtime';

interface ClientError extends Error {
  readonly code?: string;
}

/**
 * Answers what is no HTTP request, one too large in its header, and one that did not come in time;
 * then ends the connection, since where the next request would begin is not known.
 */
export function createClientErrorHandler(log: Log): (error: ClientError, socket: Socket) => void {
  return (error, socket) => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return;
    const { status, text } = describe(error);
    log.debug({ err: error }, 'bad request line or header');
    if (isAboutCurrentRequest(socket)) {
      const body = JSON.stringify({ error: text });
      socket.write(
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
          `Nereid-Error: INVALID_ARG\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
      );
    }
    socket.destroySoon();
  };
}

function describe(error: ClientError): { readonly status: number; readonly text: string } {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, text: 'the request header is larger than this server takes' };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, text: 'the request did not arrive in time' };
    default:
      return { status: 400, text: `malformed HTTP request: ${error.message}` };
  }
}

/** The part of Node's own bookkeeping that its default handler looks at as well. */
interface ServingSocket extends Socket {
  readonly _httpMessage?: { readonly headersSent: boolean; readonly req: { readonly complete: boolean } } | null;
}

/**
 * False where the mistake comes behind a request that still waits for its answer, or whose answer is
 * on its way: the client would take the error for that answer.
 */
function isAboutCurrentRequest({ _httpMessage: current }: ServingSocket): boolean {
  return current === undefined || current === null || !(current.headersSent || current.req.complete);
}
