import { promisify } from 'node:util';
import { unzip, unzipSync } from 'node:zlib';
import type { ErrorInfo } from '@nereid/protocol';
import { createAtMost } from '@nereid/runtime';

/** Bodies of up to so many bytes are inflated at once, which costs less than to wait for a thread. */
const SYNC_INPUT_BYTES_MAX = 16_384;
/** What such a body may become on the thread that serves everybody; larger ones go to another. */
const SYNC_OUTPUT_BYTES_MAX = 262_144;
/** Bodies that are inflated on other threads at a time: each may take the whole limit. Node has as many threads. */
const INFLATIONS_MAX = 4;

export type Inflated =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly error: ErrorInfo; readonly tooLarge: boolean };

/** Calls back once with the body inflated, or with why it cannot be; never throws. */
export type Inflate = (body: Uint8Array, done: (inflated: Inflated) => void) => void;

const unzipLater: (body: Uint8Array, options: { readonly maxOutputLength: number }) => Promise<Uint8Array> =
  promisify(unzip);

/**
 * Inflates what is gzip or zlib, whichever it begins as (data_compressor.h lets zlib tell the two
 * apart as well). No more than `bytes_max` bytes of it are ever made.
 */
export function createInflate(bytes_max: number): Inflate {
  const inTurn = createAtMost(INFLATIONS_MAX);
  const failed = (cause: unknown): Inflated => {
    const tooLarge = codeOf(cause) === 'ERR_BUFFER_TOO_LARGE';
    return { ok: false, error: tooLarge ? inflatedTooLarge(bytes_max) : notInflated(cause), tooLarge };
  };

  return (body, done) => {
    if (body.byteLength === 0) {
      done({ ok: false, error: NOTHING, tooLarge: false });
      return;
    }
    if (body.byteLength <= SYNC_INPUT_BYTES_MAX) {
      const now = inflateNow(body, Math.min(bytes_max, SYNC_OUTPUT_BYTES_MAX));
      if (now.bytes !== undefined) {
        done({ ok: true, bytes: now.bytes });
        return;
      }
      if (codeOf(now.cause) !== 'ERR_BUFFER_TOO_LARGE' || bytes_max <= SYNC_OUTPUT_BYTES_MAX) {
        done(failed(now.cause));
        return;
      }
    }
    void inTurn(() => unzipLater(body, { maxOutputLength: bytes_max })).then(
      (bytes) => done({ ok: true, bytes }),
      (cause) => done(failed(cause)),
    );
  };
}

function inflateNow(body: Uint8Array, maxOutputLength: number): { bytes?: Uint8Array; cause?: unknown } {
  try {
    return { bytes: unzipSync(body, { maxOutputLength }) };
  } catch (cause) {
    return { cause };
  }
}

function codeOf(cause: unknown): unknown {
  return cause instanceof Error && 'code' in cause ? cause.code : undefined;
}

/** As protocol's `bodyTooLarge`, but how large it would have become is not known. */
function inflatedTooLarge(bytes_max: number): ErrorInfo {
  const message =
    `decompressed request JSON size exceeds the maximum allowed input size of ${bytes_max} bytes. ` +
    'Use --http-max-input-size to increase the limit.';
  return { code: 'INVALID_ARG', message, field: 'body' };
}

const NOTHING: ErrorInfo = { code: 'INVALID_ARG', message: 'nothing to be decompressed', field: 'body' };

function notInflated(cause: unknown): ErrorInfo {
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `failed to decompress the request body: it is no whole gzip or zlib data (${why})`;
  return { code: 'INVALID_ARG', message, field: 'body' };
}
