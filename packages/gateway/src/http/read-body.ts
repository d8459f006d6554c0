import type { IncomingMessage } from 'node:http';

/** So many chunks are joined into one piece: a body of one-byte chunks costs bytes, not objects. */
const CHUNKS_PER_PIECE = 1024;

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
 * Each chunk that Node hands over is a copy of its own, so a body of one chunk is used as it is.
 */
export function readBody(request: IncomingMessage, bytes_max: number, done: (body: Body) => void): void {
  const announced = Number(request.headers['content-length'] ?? 0);
  const pieces: Buffer[] = [];
  let chunks: Buffer[] = [];
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
      pieces.length = 0;
      chunks = [];
      done({ ok: false, length: received });
      return;
    }
    chunks.push(chunk);
    if (chunks.length === CHUNKS_PER_PIECE) {
      pieces.push(Buffer.concat(chunks));
      chunks = [];
    }
  };

  const onEnd = () => {
    if (over) return;
    const [first, second] = chunks;
    const single = pieces.length === 0 && second === undefined;
    done({ ok: true, bytes: single ? (first ?? new Uint8Array(0)) : Buffer.concat([...pieces, ...chunks], received) });
  };

  request.on('data', onData);
  request.on('end', onEnd);
  if (over) done({ ok: false, length: announced });
}
