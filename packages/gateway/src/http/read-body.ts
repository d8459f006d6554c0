import type { IncomingMessage } from 'node:http';
import { createBodyBytes } from './body-bytes.ts';

/**
 * Of a body that is over its limit, so many times the limit are read and thrown away, so that the
 * client can finish sending, read the answer and use the connection again; more ends the connection.
 */
const DISCARD_FACTOR = 16;

export type Body =
  | { readonly ok: true; readonly bytes: Uint8Array }
  /** Over the limit; `length` is the announced length, or what had come when the limit was passed. */
  | { readonly ok: false; readonly length: number };

/**
 * Reads a request's body and calls back once, or never where the client leaves before its end.
 */
export function readBody(request: IncomingMessage, bytes_max: number, done: (body: Body) => void): void {
  const announced = Number(request.headers['content-length'] ?? 0);
  const body = createBodyBytes(announced);
  let received = 0;
  let over = announced > bytes_max;

  const onData = (chunk: Buffer) => {
    received += chunk.length;
    if (over) {
      if (received > bytes_max * DISCARD_FACTOR) request.destroy();
      return;
    }
    if (received > bytes_max) {
      over = true;
      body.drop();
      done({ ok: false, length: received });
      return;
    }
    body.add(chunk);
  };

  request.on('data', onData);
  request.on('end', () => {
    if (!over) done({ ok: true, bytes: body.end() });
  });
  if (over) done({ ok: false, length: announced });
}
