/** Tensors whose bytes travel beside the message that names them (docs/protocol.md R29, R30). */
import type { Datatype } from './datatype.ts';
import type { InferRequest, Outcome } from './infer.ts';
import type { Tensor } from './tensor.ts';

/**
 * Where blobs are kept: a file in the shared memory of one host, a key in Redis, or the memory of the worker that made
 * it (its id is `{worker}-{n}`). In frames each is its position here, for ever: a new one goes to the end.
 */
export const BLOB_PLACES = ['file', 'redis', 'worker'] as const;
export type BlobPlace = (typeof BLOB_PLACES)[number];

/** The id of a blob; it becomes a file's name. */
export const BLOB_ID = /^[\w-]{1,128}$/;

/** Names bytes that were put down for others to fetch. */
export interface BlobRef {
  readonly place: BlobPlace;
  /** A BLOB_ID; never used twice. */
  readonly id: string;
  readonly bytes: number;
}

/** A tensor without its data. To whoever wants the data and gets this, the blob was gone. */
export interface BlobTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly blob: BlobRef;
}

/** A tensor as a message carries it. */
export type CarriedTensor = Tensor | BlobTensor;
export type CarriedRequest = InferRequest<CarriedTensor>;
export type CarriedOutcome = Outcome<CarriedTensor>;

export function isBlobTensor(tensor: CarriedTensor): tensor is BlobTensor {
  return 'blob' in tensor;
}

/** Whether the data of every input are here. */
export function isWholeRequest(request: CarriedRequest): request is InferRequest {
  return !request.inputs.some(isBlobTensor);
}

/** Whether the data of every output are here, or there is none. */
export function isWholeOutcome(outcome: CarriedOutcome): outcome is Outcome {
  return !outcome.ok || !outcome.response.outputs.some(isBlobTensor);
}
