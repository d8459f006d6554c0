/** The file of lines that a request sends, or names as a blob. */
import type { IncomingMessage } from 'node:http';
import { createUnzip } from 'node:zlib';
import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';
import type { Bulk } from '../bulk.ts';
import type { BulkFile } from '../bulk-upload.ts';
import { bodyCoding } from './content-coding.ts';

/** A body that only names a blob. */
const NAMED_BYTES_MAX = 16_384;

/** Undefined for a coding that is not taken. Throws INVALID_ARG, or NOT_FOUND, for what names no blob. */
export async function bulkFile(raw: IncomingMessage, bulk: Pick<Bulk, 'blobFile'>): Promise<BulkFile | undefined> {
  const parts = bodyParts(raw);
  if (parts === undefined) return undefined;
  if (isJson(raw.headers['content-type'])) return blobFile(bulk, await namedBlob(parts));
  // Compressed ones have more.
  return { bytes: Number(raw.headers['content-length'] ?? 0), parts };
}

/** The body as it comes, decompressed; undefined for a coding that is not taken. Throws INVALID_ARG, or CANCELLED where the client leaves. */
export function bodyParts(raw: IncomingMessage): AsyncIterable<Uint8Array> | undefined {
  const coding = bodyCoding(raw.headers['content-encoding']);
  if (coding === undefined) return undefined;
  return coding === 'identity' ? read(raw) : inflated(raw);
}

function isJson(contentType: string | undefined): boolean {
  return /^application\/json\s*(;|$)/i.test(contentType ?? '');
}

interface NamedBlob {
  readonly ref: string;
  /** Undefined where it is not said. */
  readonly bytes: number | undefined;
}

async function blobFile(bulk: Pick<Bulk, 'blobFile'>, { ref, bytes }: NamedBlob): Promise<BulkFile> {
  const file = await bulk.blobFile(ref);
  if (file === undefined) {
    const message = `blob '${ref}' is not there: its time is over, or it was never put`;
    throw new NereidError('NOT_FOUND', message, { field: 'input_blob.ref' });
  }
  if (bytes === undefined || bytes === file.bytes) return file;
  const message = `blob '${ref}' has ${file.bytes} bytes, not byte_size ${bytes}`;
  throw new NereidError('INVALID_ARG', message, { field: 'input_blob.byte_size' });
}

async function namedBlob(parts: AsyncIterable<Uint8Array>): Promise<NamedBlob> {
  const held: Uint8Array[] = [];
  let size = 0;
  for await (const part of parts) {
    size += part.byteLength;
    // Read to its end, so that the client reads the answer.
    if (size <= NAMED_BYTES_MAX) held.push(part);
  }
  const blob = size > NAMED_BYTES_MAX ? undefined : inputBlob(Buffer.concat(held).toString('utf8'));
  const { ref, byte_size: bytes } = (blob ?? {}) as Readonly<Record<string, unknown>>;
  const isSized = bytes === undefined || (Number.isSafeInteger(bytes) && (bytes as number) >= 0);
  if (typeof ref === 'string' && ref !== '' && isSized) return { ref, bytes: bytes as number | undefined };
  const message =
    "a JSON body must be {input_blob: {ref, byte_size}} as POST /v2/blobs answers; send lines themselves as 'Content-Type: application/jsonl'";
  throw new NereidError('INVALID_ARG', message, { field: 'input_blob' });
}

function inputBlob(text: string): unknown {
  try {
    return (JSON.parse(text) as { readonly input_blob?: unknown } | null)?.input_blob;
  } catch {
    return undefined;
  }
}

/** Who stops reading has still to answer on its connection. */
async function* read(raw: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    yield* raw.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
  } catch (cause) {
    throw new NereidError('CANCELLED', `the client left before its file's end: ${errorInfo(cause).message}`);
  }
}

async function* inflated(raw: IncomingMessage): AsyncGenerator<Uint8Array> {
  const unzip = createUnzip();
  raw.once('error', (error) => unzip.destroy(error));
  try {
    yield* raw.pipe(unzip) as AsyncIterable<Uint8Array>;
  } catch (cause) {
    const message = `the body is not what its Content-Encoding says: ${errorInfo(cause).message}`;
    throw new NereidError('INVALID_ARG', message, { field: 'Content-Encoding' });
  }
}

export const CODING: ErrorInfo = {
  code: 'UNSUPPORTED',
  message: 'Unsupported compression type',
  field: 'Content-Encoding',
};
