/** What a job asks for, and what it is given. */
import { checkJob, LIMITS } from '@nereid/config';
import {
  classifyOutputs,
  type DecodedJob,
  decodeJobData,
  type ErrorInfo,
  encodeJobResult,
  errorInfo,
  type JobBlobs,
  type JsonObject,
  type Outcome,
  type Tensor,
} from '@nereid/protocol';
import type { ResultPayloads } from '@nereid/transport';
import type { OwnedModel } from './owned-model.ts';

const REQUEST_LIMITS = {
  json_depth_max: LIMITS.json_depth_max,
  elements_max: LIMITS.json_elements_max,
  bytes_max: LIMITS.body_bytes_max,
};

const NO_BLOBS: JobBlobs = new Map();
/** Of outputs beside a result, where its producer does not say. */
const RESULT_TTL_S = 3_600;

export type ReadJob =
  | { readonly ok: true; readonly decoded: DecodedJob }
  | { readonly ok: false; readonly error: ErrorInfo };

/** The job's request, or why it is none, in the order and with the texts of an HTTP request. */
export function readJob({ name, signature }: OwnedModel, data: unknown, blobs: JobBlobs = NO_BLOBS): ReadJob {
  try {
    const decoded = decodeJobData(data, { modelName: name, limits: REQUEST_LIMITS, blobs });
    const error = checkJob(signature, decoded.request);
    return error === null ? { ok: true, decoded } : { ok: false, error };
  } catch (thrown) {
    return { ok: false, error: errorInfo(thrown) };
  }
}

/** The correlation id of a job whose inputs may be gone; 0 for none. */
export function sequenceOf({ name }: OwnedModel, data: unknown): bigint | string {
  try {
    const bare = { ...(data as object), inputs: [] };
    return decodeJobData(bare, { modelName: name, limits: REQUEST_LIMITS }).request.correlationId;
  } catch {
    return 0n;
  }
}

export type JobResult =
  | {
      readonly ok: true;
      readonly value: JsonObject;
      /** What the value only names; undefined where that is nothing. */
      readonly beside: ResultPayloads | undefined;
    }
  | { readonly ok: false; readonly error: ErrorInfo };

/**
 * The return value, outputs as classes where the job asks for them; one may have no form of the kind asked for. `refOf`:
 * the reference of an output that goes beside it; without it none does.
 */
export function resultOf(
  outcome: Outcome & { readonly ok: true },
  { respond, outputs, resultTtlS = RESULT_TTL_S }: DecodedJob,
  { signature, source }: OwnedModel,
  refOf?: (index: number) => string,
): JobResult {
  const blobs = new Map<string, Uint8Array>();
  const put = (output: Tensor, index: number) => {
    const ref = refOf?.(index) ?? '';
    blobs.set(ref, output.data);
    return ref;
  };
  try {
    const classified = { batching: signature.maxBatchSize > 0, labels: source.labels };
    const response = classifyOutputs(outcome.response, outputs, classified);
    const value = encodeJobResult(response, respond, refOf && put);
    return { ok: true, value, beside: blobs.size === 0 ? undefined : { blobs, ttlS: resultTtlS } };
  } catch (thrown) {
    return { ok: false, error: errorInfo(thrown) };
  }
}
