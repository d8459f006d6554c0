/** What a job asks for, and what it is given. */
import { checkRequest, LIMITS } from '@nereid/config';
import {
  classifyOutputs,
  type DecodedJob,
  decodeJobData,
  type ErrorInfo,
  encodeJobResult,
  errorInfo,
  type JsonObject,
  type Outcome,
} from '@nereid/protocol';
import type { OwnedModel } from './owned-model.ts';

const REQUEST_LIMITS = {
  json_depth_max: LIMITS.json_depth_max,
  elements_max: LIMITS.json_elements_max,
  bytes_max: LIMITS.body_bytes_max,
};

export type ReadJob =
  | { readonly ok: true; readonly decoded: DecodedJob }
  | { readonly ok: false; readonly error: ErrorInfo };

/** The job's request, or why it is none, in the order and with the texts of an HTTP request. */
export function readJob({ name, signature }: OwnedModel, data: unknown): ReadJob {
  try {
    const decoded = decodeJobData(data, { modelName: name, limits: REQUEST_LIMITS });
    const error = checkRequest(signature, decoded.request);
    return error === null ? { ok: true, decoded } : { ok: false, error };
  } catch (thrown) {
    return { ok: false, error: errorInfo(thrown) };
  }
}

export type JobResult =
  | { readonly ok: true; readonly value: JsonObject }
  | { readonly ok: false; readonly error: ErrorInfo };

/** The return value, outputs as classes where the job asks for them; one may have no form of the kind asked for. */
export function resultOf(
  outcome: Outcome & { readonly ok: true },
  { respond, outputs }: DecodedJob,
  { signature, source }: OwnedModel,
): JobResult {
  try {
    const classified = { batching: signature.maxBatchSize > 0, labels: source.labels };
    return { ok: true, value: encodeJobResult(classifyOutputs(outcome.response, outputs, classified), respond) };
  } catch (thrown) {
    return { ok: false, error: errorInfo(thrown) };
  }
}
