import type { ErrorInfo, InferRequest } from '@nereid/protocol';

/** Triton's texts for requests that are not executed (model_lifecycle.cc, infer_request.cc, scheduler.h). */
export const STOPPING: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'Server is stopping, scheduler for model has stopped accepting new inference requests',
};

export const DEADLINE_PASSED: ErrorInfo = { code: 'UNAVAILABLE', message: 'Request timeout expired' };

export const CANCELLED: ErrorInfo = { code: 'CANCELLED', message: 'Request cancelled' };

export const QUEUE_FULL: ErrorInfo = { code: 'UNAVAILABLE', message: 'Exceeds maximum queue size' };

export const INSTANCE_LOST: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'the instance that ran the request was lost twice; try again later',
};

export function modelNotFound(model: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `Request for unknown model: '${model}' is not found` };
}

export function versionNotFound(model: string, version: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `Request for unknown model: '${model}' version ${version} is not found` };
}

export function noVersions(model: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `Request for unknown model: '${model}' has no available versions` };
}

export function versionNotReady(model: string, version: string): ErrorInfo {
  const message = `Request for unknown model: '${model}' version ${version} is not at ready state`;
  return { code: 'UNAVAILABLE', message };
}

/** Puts the client's request id before the text, as Triton does for what its core refuses. */
export function withRequestId(request: InferRequest, error: ErrorInfo): ErrorInfo {
  const id = request.id === '' ? '<id_unknown>' : request.id;
  return { ...error, message: `[request id: ${id}] ${error.message}` };
}
