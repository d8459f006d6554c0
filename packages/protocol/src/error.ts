/** The closed set of error codes: Triton's, and POISONED, which is ours. */
export type ErrorCode =
  | 'INVALID_ARG'
  | 'NOT_FOUND'
  | 'UNAVAILABLE'
  | 'UNSUPPORTED'
  | 'ALREADY_EXISTS'
  | 'CANCELLED'
  | 'INTERNAL'
  | 'UNKNOWN'
  | 'POISONED';

/** Why a request counts as failed in `nv_inference_request_failure{reason}`. */
export type FailureReason = 'REJECTED' | 'CANCELED' | 'BACKEND' | 'OTHER';

interface ErrorRow {
  /** HTTP status on Triton's own routes. */
  readonly http: number;
  /** HTTP status on Nereid's routes, where it differs. */
  readonly httpOwn?: number;
  /** gRPC status code number. */
  readonly grpc: number;
  /** Its words in index reasons and logs, e.g. "Invalid argument". */
  readonly label: string;
  /** The metric's failure reason unless the place that fails knows better. */
  readonly reason: FailureReason;
  readonly meaning: string;
}

/**
 * The one table of errors: Triton's HTTP statuses (http_server.cc, HttpCodeFromError) and gRPC codes
 * (grpc_utils.h). docs/errors.md is generated from it.
 */
export const ERROR_TABLE: Readonly<Record<ErrorCode, ErrorRow>> = {
  INVALID_ARG: {
    http: 400,
    grpc: 3,
    label: 'Invalid argument',
    reason: 'OTHER',
    meaning: 'the request is wrong; the text names the field',
  },
  NOT_FOUND: {
    http: 404,
    grpc: 5,
    label: 'Not found',
    reason: 'OTHER',
    meaning: 'no such model, version, job or region',
  },
  UNAVAILABLE: {
    http: 503,
    grpc: 14,
    label: 'Unavailable',
    reason: 'REJECTED',
    meaning: 'not now: not ready, stopping, a full queue or a passed deadline',
  },
  UNSUPPORTED: {
    http: 501,
    grpc: 12,
    label: 'Unsupported',
    reason: 'OTHER',
    meaning: 'this server or model does not do that',
  },
  ALREADY_EXISTS: {
    http: 400,
    httpOwn: 409,
    grpc: 6,
    label: 'Already exists',
    reason: 'OTHER',
    meaning: 'the name or key is taken',
  },
  CANCELLED: { http: 400, grpc: 1, label: 'Cancelled', reason: 'CANCELED', meaning: 'the caller gave up' },
  INTERNAL: { http: 500, grpc: 13, label: 'Internal', reason: 'BACKEND', meaning: 'the model or the server failed' },
  UNKNOWN: { http: 400, grpc: 2, label: 'Unknown', reason: 'OTHER', meaning: 'an error without a better code' },
  POISONED: {
    http: 500,
    grpc: 13,
    label: 'Poisoned',
    reason: 'BACKEND',
    meaning: 'the request ended its thread or process twice, the second time alone in it',
  },
};

/** An error as a value: what travels in messages and outcomes. */
export interface ErrorInfo {
  readonly code: ErrorCode;
  readonly message: string;
  /** The request member at fault, e.g. `inputs[0].shape`. */
  readonly field?: string;
  /** A machine-readable detail of ours, e.g. `sequence_lost`. */
  readonly reason?: string;
}

/** The one error class. Thrown where a caller made a mistake or an effect failed. */
export class NereidError extends Error implements ErrorInfo {
  override readonly name = 'NereidError';
  readonly code: ErrorCode;
  readonly field?: string;
  readonly reason?: string;

  constructor(code: ErrorCode, message: string, detail: { field?: string; reason?: string; cause?: unknown } = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    if (detail.field !== undefined) this.field = detail.field;
    if (detail.reason !== undefined) this.reason = detail.reason;
  }
}

/** What is thrown of an error that was given back. */
export function thrownError({ code, message, ...detail }: ErrorInfo): NereidError {
  return new NereidError(code, message, detail);
}

/** Any thrown value as an ErrorInfo; what is not a NereidError becomes `fallback`. */
export function errorInfo(thrown: unknown, fallback: ErrorCode = 'INTERNAL'): ErrorInfo {
  if (thrown instanceof NereidError) {
    return {
      code: thrown.code,
      message: thrown.message,
      ...(thrown.field === undefined ? {} : { field: thrown.field }),
      ...(thrown.reason === undefined ? {} : { reason: thrown.reason }),
    };
  }
  return { code: fallback, message: thrownText(thrown) };
}

/** The text of any thrown value. Total: a model may throw what has no text, or an Error whose message is none. */
export function thrownText(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return String(text);
  } catch {
    return 'an error that cannot be read';
  }
}

/** HTTP status of a code; `own` for Nereid's routes, else Triton's. */
export function httpStatus(code: ErrorCode, own = false): number {
  const row = ERROR_TABLE[code];
  return (own ? row.httpOwn : undefined) ?? row.http;
}
