import { constants, createDeflate, createGzip, deflateSync, gzipSync } from 'node:zlib';
import type { ContentCoding } from './content-coding.ts';

/** Answers of up to so many bytes are compressed at once, which costs less than to wait for a thread. */
const SYNC_BYTES_MAX = 16_384;
/** Output is made in pieces of this size. */
const CHUNK_BYTES = 65_536;

/** The fastest: answers are compressed for each client anew. */
const OPTIONS = { level: constants.Z_BEST_SPEED, chunkSize: CHUNK_BYTES };
const SYNC_OPTIONS = { level: constants.Z_BEST_SPEED };

/**
 * Compresses the parts as one, and calls back once: with the parts as they are and `identity` where
 * that fails, as Triton does. Large ones are compressed on another thread.
 */
export function deflateParts(
  parts: readonly Uint8Array[],
  length: number,
  coding: Exclude<ContentCoding, 'identity'>,
  done: (parts: readonly Uint8Array[], coding: ContentCoding) => void,
): void {
  if (length <= SYNC_BYTES_MAX) {
    const whole = Buffer.concat(parts, length);
    done([coding === 'gzip' ? gzipSync(whole, SYNC_OPTIONS) : deflateSync(whole, SYNC_OPTIONS)], coding);
    return;
  }
  const stream = coding === 'gzip' ? createGzip(OPTIONS) : createDeflate(OPTIONS);
  const compressed: Uint8Array[] = [];
  stream.on('data', (chunk: Buffer) => compressed.push(chunk));
  stream.once('end', () => done(compressed, coding));
  stream.once('error', () => done(parts, 'identity'));
  for (const part of parts) stream.write(part);
  stream.end();
}
