import { type ErrorInfo, type InferRequest, JOB_TOO_LARGE, totalBytes } from '@nereid/protocol';
import { checkRequest } from './check-request.ts';
import type { ModelSignature } from './model-signature.ts';

/** Why the request cannot be a job of the model, or null: what a request that is waited for is refused for, and its size. */
export function checkJob(signature: ModelSignature, request: InferRequest): ErrorInfo | null {
  const { name, jobBytesMax } = signature;
  const bytes = totalBytes(request.inputs);
  if (jobBytesMax !== undefined && bytes > jobBytesMax) {
    const message = `the inputs take ${bytes} bytes, a job of model '${name}' may have ${jobBytesMax} (nereid.job_bytes_max): send less at a time`;
    return { code: 'INVALID_ARG', message, field: 'inputs', reason: JOB_TOO_LARGE };
  }
  return checkRequest(signature, request);
}
