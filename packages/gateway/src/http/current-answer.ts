import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Node's own bookkeeping, which its default handlers look at as well. */
interface ServedSocket extends Socket {
  readonly _httpMessage?: ServerResponse | null;
}

/** The answer that a connection is at, from its request's whole header to its last byte; null between two. */
export function currentAnswer(socket: ServedSocket): ServerResponse | null {
  return socket._httpMessage ?? null;
}

/** Ends the connection once all requests that have come on it are answered. */
export function endAfterAnswers(socket: Socket): void {
  const current = currentAnswer(socket);
  if (current === null) socket.destroySoon();
  else current.once('finish', () => endAfterAnswers(socket));
}
