import { promisify } from 'node:util';
import { createGunzip, createInflate, deflate, deflateSync, gunzipSync, gzip, gzipSync, inflateSync } from 'node:zlib';
import type { CallBytes } from './call-bytes.ts';
import { brokenCall, type CallStatus, errorStatus, messageTooLarge, unimplemented } from './call-status.ts';

export type Compression = 'gzip' | 'deflate';

/** What clients may send, as the header tells them. */
export const ACCEPTED_ENCODINGS = 'identity,deflate,gzip';

/** Up to so many bytes it takes longer to go to a thread; inflated they are a thousand times as many at most. */
const SYNC_BYTES_MAX = 4_096;

const inflaters = {
  gzip: { sync: gunzipSync, create: createGunzip },
  deflate: { sync: inflateSync, create: createInflate },
} as const;
const deflaters = {
  gzip: { sync: gzipSync, async: promisify(gzip) },
  deflate: { sync: deflateSync, async: promisify(deflate) },
} as const;

export type Plain =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly status: CallStatus };

/**
 * A message that came compressed, by the call's `grpc-encoding`. What it grows to is taken of the
 * call's bytes as it grows. Never throws nor rejects.
 */
export function decompressed(
  message: Uint8Array,
  encoding: string,
  bytes_max: number,
  account: CallBytes,
): Plain | Promise<Plain> {
  if (encoding !== 'gzip' && encoding !== 'deflate') {
    // Without an encoding no message may be compressed.
    const status =
      encoding === 'identity'
        ? brokenCall('Received a compressed message without a grpc-encoding')
        : unimplemented(`Received message compressed with unsupported encoding "${encoding}"; use gzip or deflate`);
    return { ok: false, status };
  }
  if (message.byteLength > SYNC_BYTES_MAX) return inflatedLarge(message, encoding, bytes_max, account);
  try {
    const bytes = inflaters[encoding].sync(message, { maxOutputLength: bytes_max });
    return account.take(bytes.byteLength) ? { ok: true, bytes } : refused(errorStatus(account.refusal()));
  } catch (thrown) {
    const tooLarge = thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_BUFFER_TOO_LARGE';
    return refused(tooLarge ? messageTooLarge(bytes_max + 1, bytes_max) : BROKEN);
  }
}

const BROKEN = brokenCall('Failed to decompress message');

/** Piece by piece, so that one that grows without end is stopped early. */
function inflatedLarge(
  message: Uint8Array,
  encoding: Compression,
  bytes_max: number,
  account: CallBytes,
): Promise<Plain> {
  return new Promise((resolve) => {
    const inflater = inflaters[encoding].create();
    const chunks: Buffer[] = [];
    let length = 0;
    const stop = (status: CallStatus) => {
      resolve(refused(status));
      inflater.destroy();
    };
    inflater.on('data', (chunk: Buffer) => {
      length += chunk.length;
      // Nobody reads it any more, and what it grows to would count nowhere.
      if (!account.open) stop(BROKEN);
      else if (length > bytes_max) stop(messageTooLarge(length, bytes_max));
      else if (account.take(chunk.length)) chunks.push(chunk);
      else stop(errorStatus(account.refusal()));
    });
    inflater.once('error', () => stop(BROKEN));
    inflater.once('end', () => resolve({ ok: true, bytes: Buffer.concat(chunks) }));
    inflater.end(message);
  });
}

function refused(status: CallStatus): Plain {
  return { ok: false, status };
}

/** How answers are compressed. */
export interface AnswerCompression {
  readonly encoding: Compression;
  /** zlib's, from 1 to 9. */
  readonly level: number;
}

/** zlib's level for each word of `--grpc-infer-response-compression-level`. */
const LEVELS: Readonly<Record<string, number>> = { low: 1, medium: 6, high: 9 };

/** What of the flag's wish this client can read, undefined for none: gzip first, as its `grpc-accept-encoding` allows. */
export function answerCompression(level: string, accepted: string | undefined): AnswerCompression | undefined {
  const zlibLevel = LEVELS[level];
  if (zlibLevel === undefined || accepted === undefined) return undefined;
  const encodings = accepted.split(',').map((each) => each.trim());
  const encoding = (['gzip', 'deflate'] as const).find((each) => encodings.includes(each));
  return encoding === undefined ? undefined : { encoding, level: zlibLevel };
}

/** Rejects only where memory is at its end. */
export function compressed(
  message: Uint8Array,
  { encoding, level }: AnswerCompression,
): Uint8Array | Promise<Uint8Array> {
  const { sync, async } = deflaters[encoding];
  return message.byteLength > SYNC_BYTES_MAX ? async(message, { level }) : sync(message, { level });
}
