/** The data and the return values of jobs, as BullMQ carries them: JSON, with tensors as `b64` or `blob`. */
import { fromBase64, toBase64 } from './base64.ts';
import type { BlobRef, Blobs } from './blobs.ts';
import { NereidError } from './error.ts';
import { type InferInput, type InferResult, requestMembers, resultOf, tensorsOf } from './infer.ts';
import type { JobWishes } from './job.ts';
import { isObject, type JsonObject, objectOf } from './json.ts';
import { tensorBytes } from './tensor.ts';

/** A request for the model of the queue. Steps of sequences are numbered by `sequence.step`. */
export type JobInput = Omit<InferInput, 'model'>;

export interface JobDataOptions extends Pick<JobWishes, 'deadlineMs' | 'resultTtlS' | 'tags' | 'webhook'> {
  /** How the outputs come: `b64` without it, and `auto` where there are blobs. */
  readonly respond?: 'auto' | 'json' | 'b64' | 'blob';
  readonly traceparent?: string;
}

/** Where large tensors go, so that they do not pass through Redis as text. */
export interface BlobPlace {
  readonly blobs: Pick<Blobs, 'put' | 'get'>;
  /** Inputs of more bytes in all go there. */
  readonly bytesMin: number;
  /** How long an input is kept there for its job. */
  readonly ttlS: number | undefined;
}

/** Job data of a request. Throws INVALID_ARG naming what does not fit. */
export async function jobData(
  input: JobInput,
  options: JobDataOptions,
  place: BlobPlace | undefined,
): Promise<JsonObject> {
  const { id, parameters, outputs } = requestMembers(input);
  // The data say with `respond` how outputs come, and number a step by themselves.
  const { binary_data_output: _, nereid_step: step, ...rest } = objectOf(parameters, 'request');
  const tensors = tensorsOf(input.inputs).map(([name, tensor]) => ({ name, tensor, bytes: tensorBytes(name, tensor) }));
  const size = tensors.reduce((total, { bytes }) => total + bytes.byteLength, 0);
  const blobs = place !== undefined && size > place.bytesMin ? place : undefined;
  const inputs = tensors.map(async ({ name, tensor: { datatype, shape }, bytes }) => {
    const form = blobs === undefined ? { b64: toBase64(bytes) } : { blob: await put(blobs, bytes) };
    return { name, datatype, shape, ...form };
  });
  return {
    v: 1,
    id,
    model_version: input.version,
    parameters: plain(rest),
    inputs: await Promise.all(inputs),
    outputs,
    respond: options.respond ?? (place === undefined ? 'b64' : 'auto'),
    deadline_ms: options.deadlineMs,
    result_ttl_s: options.resultTtlS,
    tags: options.tags,
    webhook: options.webhook,
    sequence_index: step,
    traceparent: options.traceparent,
  };
}

function put({ blobs, ttlS }: BlobPlace, bytes: Uint8Array): Promise<BlobRef> {
  return blobs.put(bytes, ttlS === undefined ? {} : { ttlS });
}

/** BullMQ writes data by JSON.stringify, which has no integers beyond 2^53: they are `{ int64: text }`. */
function plain(parameters: JsonObject): JsonObject {
  const entries = Object.entries(parameters).map(([name, value]): [string, unknown] => {
    if (typeof value !== 'bigint') return [name, value];
    return [name, Number.isSafeInteger(Number(value)) ? Number(value) : { int64: String(value) }];
  });
  return Object.fromEntries(entries);
}

/** What a job's return value says. Throws INTERNAL where it is none, or has a `blob` and there is no place to get it. */
export async function jobResult(value: unknown, blobs: Pick<Blobs, 'get'> | undefined): Promise<InferResult> {
  const answer = objectOf(value, 'return value');
  const outputs = (Array.isArray(answer.outputs) ? answer.outputs : []).filter(isObject);
  const fetched = new Map<unknown, Uint8Array<ArrayBuffer>>();
  const fetching = outputs.map(async ({ name, blob }) => {
    if (!isObject(blob)) return;
    if (blobs === undefined)
      throw new NereidError('INTERNAL', `output '${name}' is a blob: give the producer the client's blobs`);
    fetched.set(name, await blobs.get(String(blob.ref)));
  });
  await Promise.all(fetching);
  return resultOf(answer, (name, { b64 }) => {
    const bytes = typeof b64 === 'string' ? fromBase64(b64) : fetched.get(name);
    if (bytes !== undefined) return bytes;
    throw new NereidError('INTERNAL', `output '${name}' of the job's return value is no tensor`);
  });
}
