/** Files of the journal, gzipped or not. */
import { pipeline, Readable, type Transform } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import { brokenFile } from './journal-header.ts';

const GZIP_MAGIC = [0x1f, 0x8b];

export async function* gzipped(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  yield* through(chunks, createGzip());
}

/** The chunks as they are, or decompressed where they begin as gzip does. Throws INVALID_ARG where that is broken. */
export async function* maybeGunzipped(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const source = each(chunks);
  try {
    let head = Buffer.alloc(0);
    while (head.byteLength < GZIP_MAGIC.length) {
      const { value, done } = await source.next();
      if (done === true) break;
      head = Buffer.concat([head, value]);
    }
    const whole = joined(head, source);
    yield* GZIP_MAGIC.every((byte, index) => head[index] === byte) ? gunzipped(whole) : whole;
  } finally {
    await source.return();
  }
}

async function* each(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  yield* chunks;
}

async function* joined(head: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  yield head;
  yield* rest;
}

async function* gunzipped(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const gunzip = createGunzip();
  let fed = 0;
  async function* counted(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of chunks) {
      fed += chunk.byteLength;
      yield chunk;
    }
  }
  try {
    yield* through(counted(), gunzip);
  } catch (error) {
    const { code = '' } = error as { readonly code?: string };
    if (!code.startsWith('Z_')) throw error;
    throw brokenFile(code === 'Z_BUF_ERROR' ? 'its gzip is cut' : 'its gzip is broken', error);
  }
  // What is behind the compressed data is left unread.
  if (gunzip.bytesWritten !== fed) throw brokenFile('bytes stand behind its gzip');
}

/** Errors of either reach the reader; one who stops reading closes both. */
async function* through(
  chunks: AsyncIterable<Uint8Array>,
  transform: Transform,
): AsyncGenerator<Uint8Array, void, undefined> {
  pipeline(Readable.from(chunks), transform, () => {});
  yield* transform as AsyncIterable<Uint8Array>;
}
