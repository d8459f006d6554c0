import type { IncomingMessage } from 'node:http';
import { bodyTooLarge } from '@nereid/protocol';
import { createBodyBytes } from './body-bytes.ts';
import { bodyCoding } from './content-coding.ts';
import type { Inflate, Inflated } from './inflate.ts';

/**
 * Of a body that is over its limit, so many times the limit are read and thrown away, so that the
 * client can finish sending, read the answer and use the connection again; more ends the connection.
 */
const DISCARD_FACTOR = 16;

/** Not ok: over the limit, by its announced length or by what had come, or not to be inflated. */
export type Body = Inflated;

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
      done(tooLarge(received, bytes_max));
      return;
    }
    body.add(chunk);
  };

  request.on('data', onData);
  request.on('end', () => {
    if (!over) done({ ok: true, bytes: body.end() });
  });
  if (over) done(tooLarge(announced, bytes_max));
}

function tooLarge(length: number, bytes_max: number): Body {
  return { ok: false, error: bodyTooLarge(length, bytes_max), tooLarge: true };
}

/** As `readBody`, for a request whose `Content-Encoding` is taken; its limit is on both forms of the body. */
export function readEncodedBody(
  request: IncomingMessage,
  bytes_max: number,
  inflate: Inflate,
  done: (body: Body) => void,
): void {
  if (bodyCoding(request.headers['content-encoding']) === 'identity') {
    readBody(request, bytes_max, done);
    return;
  }
  readBody(request, bytes_max, (body) => {
    if (body.ok) inflate(body.bytes, done);
    else done(body);
  });
}
