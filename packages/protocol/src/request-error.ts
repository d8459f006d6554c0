/**
 * Triton's words for requests that are not executed (model_lifecycle.cc, infer_request.cc,
 * scheduler.h): the gateway and a model's owner refuse alike.
 */

import type { CarriedRequest } from './blob.ts';
import type { ErrorInfo } from './error.ts';
import { isNoHolder, type VersionState } from './version-state.ts';

export const STOPPING: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'Server is stopping, scheduler for model has stopped accepting new inference requests',
};

/** Of any queue at its bound: a model's, a mailbox's, the gateway's waiters. */
export const QUEUE_FULL: ErrorInfo = { code: 'UNAVAILABLE', message: 'Exceeds maximum queue size' };

/** Of one that waited longer than its queue's policy, its own time-out or its deadline allows. */
export const QUEUE_TIMEOUT: ErrorInfo = { code: 'UNAVAILABLE', message: 'Request timeout expired' };

/** Of one that nobody waits for any more, whether it ran or not. */
export const CANCELLED: ErrorInfo = { code: 'CANCELLED', message: 'Request cancelled' };
export const JOB_CANCELLED: ErrorInfo = { code: 'CANCELLED', message: 'the job was cancelled' };

/** To load or unload a model, in every control mode but `explicit` (model_repository_manager.cc). */
export const NOT_EXPLICIT: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'explicit model load / unload is not allowed if polling is enabled',
};

/** In place of an answer whose sender's lane, or whose gateway's mailbox, had no room for it. */
export const ANSWER_REFUSED: ErrorInfo = {
  code: 'UNAVAILABLE',
  message:
    'the answer could not be passed on: it is too large, or too much waits there to be read ' +
    '(blob_bytes_max and mailbox_bytes_max in docs/limits.md)',
};

/** To the caller of an unload that takes longer than `ms`; it goes on. */
export function stillUnloading(model: string, ms: number): ErrorInfo {
  const message = `model '${model}' still has requests after ${ms / 1000} s: it is unloaded once they have ended`;
  return { code: 'UNAVAILABLE', message };
}

export function modelNotFound(model: string): ErrorInfo {
  return unknownModel(`'${model}' is not found`);
}

/** Of a name that several repositories have; with its namespace before it each is known (core's model_repository_manager.cc). */
export function ambiguousModel(model: string, count: number): ErrorInfo {
  const text = `There are ${count} identifiers of model '${model}' in global map, model namespace must be provided to resolve ambiguity.`;
  return { code: 'INVALID_ARG', message: text };
}

export function versionNotFound(model: string, version: string): ErrorInfo {
  return unknownModel(`'${model}' version ${version} is not found`);
}

export function noVersions(model: string): ErrorInfo {
  return unknownModel(`'${model}' has no available versions`);
}

export function versionNotReady(model: string, version: string): ErrorInfo {
  const message = `Request for unknown model: '${model}' version ${version} is not at ready state`;
  return { code: 'UNAVAILABLE', message };
}

/**
 * Where a request names no version and none is READY: Triton's 404, which a client takes for an end.
 * With roles `apart` a model whose worker is away, or that loads after it, is as Triton says it of a
 * version by name, not at ready state: 503. `versions` ascend by number.
 */
export function noVersionReady(
  model: string,
  versions: readonly { readonly version: string; readonly state: VersionState; readonly reason: string }[],
  apart: boolean,
): ErrorInfo {
  const coming = versions.findLast(({ state, reason }) => state === 'LOADING' || isNoHolder(reason));
  return apart && coming !== undefined ? versionNotReady(model, coming.version) : noVersions(model);
}

/** Of a step whose sequence waited longer for a slot than one of its requests allows (sequence_batch_scheduler.cc). */
export const SEQUENCE_TIMEOUT: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'timeout of the corresponding sequence has been expired',
};

/** Of a step that is no START and whose sequence nobody has (sequence_batch_scheduler.cc). */
export function sequenceNeedsStart(model: string, correlationId: bigint | string): ErrorInfo {
  const message =
    `inference request for sequence ${correlationId} to model '${model}' must specify the START flag on the first ` +
    'request of the sequence';
  return { code: 'INVALID_ARG', message };
}

/** As `sequenceNeedsStart`, of a sequence that there was: whether its last steps took effect is not known (docs/protocol.md §9). */
export function sequenceLost(model: string, correlationId: bigint | string): ErrorInfo {
  return { ...sequenceNeedsStart(model, correlationId), reason: 'sequence_lost' };
}

/** Of a request without a correlation id, to a model that keeps sequences (sequence_batch_scheduler.cc). */
export function sequenceNeedsId(model: string): ErrorInfo {
  const message = `inference request to model '${model}' must specify a non-zero or non-empty correlation ID`;
  return { code: 'INVALID_ARG', message, field: 'parameters.sequence_id' };
}

/** Of a step with more rows than one (sequence_batch_scheduler.cc). */
export function sequenceOneRow(model: string): ErrorInfo {
  const message = `inference request to model '${model}' must specify batch-size 1 due to requirements of sequence batcher`;
  return { code: 'INVALID_ARG', message, field: 'inputs[0].shape' };
}

/** Of a numbered step without a correlation id, to any model. */
export const STEP_NEEDS_ID: ErrorInfo = {
  code: 'INVALID_ARG',
  message: "'nereid_step' numbers the steps of a sequence: it needs a non-zero or non-empty 'sequence_id'",
  field: 'parameters.nereid_step',
};

/** Of a numbered step before whose turn others are missing; `due` is the number that is next (docs/protocol.md R22). */
export function stepGap(model: string, correlationId: bigint | string, due: number): ErrorInfo {
  const message = `sequence ${correlationId} of model '${model}' waits for nereid_step ${due}: send the steps in order, none left out`;
  return { code: 'INVALID_ARG', message, field: 'parameters.nereid_step', reason: 'step_gap' };
}

const DUE = /.*waits for nereid_step (\d+): send/s;

/** The number of the step that is due, of a `stepGap`; undefined of any other error. Errors travel as their texts. */
export function dueStep({ message, reason }: ErrorInfo): number | undefined {
  const due = reason === 'step_gap' ? DUE.exec(message)?.[1] : undefined;
  return due === undefined ? undefined : Number(due);
}

/** Of a numbered step that took effect so long ago that its answer is not kept any more (docs/protocol.md R22). */
export function answerExpired(model: string, correlationId: bigint | string): ErrorInfo {
  const message = `this nereid_step of sequence ${correlationId} of model '${model}' was done, and its answer is not kept any more`;
  return { code: 'INVALID_ARG', message, field: 'parameters.nereid_step', reason: 'answer_expired' };
}

/** Bytes of UTF-8 of a correlation id that is a text. */
export const CORRELATION_ID_BYTES_MAX = 128;

/** Of a text for a correlation id that is longer than CORRELATION_ID_BYTES_MAX (sequence_id.h; there it is 501). */
export const CORRELATION_ID_TOO_LONG: ErrorInfo = {
  code: 'INVALID_ARG',
  message: `string correlation ID cannot be longer than ${CORRELATION_ID_BYTES_MAX} characters`,
  field: 'parameters.sequence_id',
};

/** Triton's text for a body, or its JSON, over the limit (http_server.cc), with the flag that raises it. */
export function bodyTooLarge(bytes: number, bytes_max: number): ErrorInfo {
  const message =
    `request JSON size of ${bytes} bytes exceeds the maximum allowed input size of ${bytes_max} bytes. ` +
    'Use --http-max-input-size to increase the limit.';
  return { code: 'INVALID_ARG', message, field: 'body' };
}

function unknownModel(what: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `Request for unknown model: ${what}` };
}

/** Puts the client's request id before the text, as Triton does for what its core refuses. */
export function withRequestId({ id }: Pick<CarriedRequest, 'id'>, error: ErrorInfo): ErrorInfo {
  return { ...error, message: `[request id: ${id === '' ? '<id_unknown>' : id}] ${error.message}` };
}

/** `reason` of the errors about a Redis that takes no more jobs for want of memory. */
export const REDIS_FULL = 'redis_full';

/** `reason` of the error about a job that is larger than its model allows. */
export const JOB_TOO_LARGE = 'job_too_large';
