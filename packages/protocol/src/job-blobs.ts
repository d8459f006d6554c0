/** Tensors that job data and return values only name: their raw bytes are kept beside the job. */
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { isJsonObject, type JsonObject } from './job-json.ts';
import type { Tensor } from './tensor.ts';

/** By reference: what was found of the blobs that some tensors name. */
export type JobBlobs = ReadonlyMap<string, Uint8Array>;

export const NO_BLOBS: JobBlobs = new Map();

/** Tensors that take more than this in all do not stand in the data of a job over HTTP. */
export const JOB_INLINE_BYTES_MAX = 16_384;
/** A smaller one is not worth a key of its own. */
const BLOB_BYTES_MIN = 1_024;
/** References of ours are far shorter. */
const REF_CHARACTERS_MAX = 1_024;

export interface NamedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly blob: { readonly ref: string; readonly byte_size: number };
}

export function namedTensor({ name, datatype, shape, data }: Tensor, ref: string): NamedTensor {
  return { name, datatype, shape, blob: { ref, byte_size: data.byteLength } };
}

/** The blobs that the tensors of job data, or of a return value, name. What is malformed names none. */
export function blobRefs(tensors: unknown): readonly string[] {
  if (!Array.isArray(tensors)) return [];
  return tensors.flatMap((tensor: unknown) => {
    const ref = isJsonObject(tensor) && isJsonObject(tensor.blob) ? tensor.blob.ref : undefined;
    return isRef(ref) ? [ref] : [];
  });
}

/** Which of these tensors go beside the data of their job: none where all of them are small. */
export function blobTensors(tensors: readonly Tensor[], inlineBytesMax = JOB_INLINE_BYTES_MAX): ReadonlySet<Tensor> {
  if (totalBytes(tensors) <= inlineBytesMax) return new Set();
  return new Set(tensors.filter(({ data }) => data.byteLength >= BLOB_BYTES_MIN));
}

export function totalBytes(tensors: readonly Tensor[]): number {
  return tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
}

/** The bytes that a `blob` member names. Throws INVALID_ARG where it is none, NOT_FOUND where they are not there. */
export function blobBytes(blob: unknown, field: string, blobs: JobBlobs): Uint8Array {
  const { ref, byte_size: size }: JsonObject = isJsonObject(blob) ? blob : {};
  if (!isRef(ref) || !Number.isSafeInteger(size)) {
    throw new NereidError(
      'INVALID_ARG',
      "'blob' must be {ref, byte_size} as POST /v2/blobs answers; it is never a path or a URL",
      { field: `${field}.blob` },
    );
  }
  const bytes = blobs.get(ref);
  if (bytes === undefined) {
    throw new NereidError('NOT_FOUND', `blob '${ref}' is not there: its time is over, or it was never put`, {
      field: `${field}.blob.ref`,
    });
  }
  if (bytes.byteLength === size) return bytes;
  throw new NereidError('INVALID_ARG', `blob '${ref}' has ${bytes.byteLength} bytes, not byte_size ${size}`, {
    field: `${field}.blob.byte_size`,
  });
}

function isRef(ref: unknown): ref is string {
  return typeof ref === 'string' && ref.length > 0 && ref.length <= REF_CHARACTERS_MAX;
}
