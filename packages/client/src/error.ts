/** What a server says went wrong (docs/errors.md); UNAVAILABLE and INTERNAL also where no server could be understood. */
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

const CODES: ReadonlySet<string> = new Set<ErrorCode>([
  'INVALID_ARG',
  'NOT_FOUND',
  'UNAVAILABLE',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
  'INTERNAL',
  'UNKNOWN',
  'POISONED',
]);

/** Where neither the header nor the body tells a code: a proxy's answer, or a page without CORS. */
const CODE_OF_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: 'INVALID_ARG',
  404: 'NOT_FOUND',
  409: 'ALREADY_EXISTS',
  410: 'NOT_FOUND',
  413: 'INVALID_ARG',
  429: 'UNAVAILABLE',
  500: 'INTERNAL',
  501: 'UNSUPPORTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'UNAVAILABLE',
};

const EVENT = 'data: ';

export interface ErrorDetail {
  readonly field?: string | undefined;
  readonly reason?: string | undefined;
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** The one error of this package. A call that its own `signal` ended throws the signal's reason instead. */
export class NereidError extends Error {
  override readonly name = 'NereidError';
  readonly code: ErrorCode;
  /** The member or header at fault, such as `inputs[0].shape`. */
  readonly field: string | undefined;
  /** A detail, such as `sequence_lost`; of this package: `timeout`, `connection`, `outcome_unknown`. */
  readonly reason: string | undefined;
  /** Of the HTTP answer; undefined where there was none. */
  readonly status: number | undefined;
  /** What `nereid explain` takes. */
  readonly requestId: string | undefined;
  /** When the server wants to be asked again, in milliseconds from the answer. */
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, detail: ErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    this.field = detail.field;
    this.reason = detail.reason;
    this.status = detail.status;
    this.requestId = detail.requestId;
    this.retryAfterMs = detail.retryAfterMs;
  }
}

export function isErrorCode(text: unknown): text is ErrorCode {
  return typeof text === 'string' && CODES.has(text);
}

/** The error of an answer: `{error, code?, field?}`, and `Nereid-Error: CODE; field=…; reason=…`. */
export function answerError(response: Response, text: string, nowMs: number): NereidError {
  const { status, headers } = response;
  // A stream whose first answer is an error begins with it.
  const body = members(text.startsWith(EVENT) ? text.slice(EVENT.length, text.indexOf('\n')) : text);
  const [code, ...details] = (headers.get('Nereid-Error') ?? '').split('; ');
  const told = new Map(details.map((detail) => splitOnce(detail, '=')));
  const known = [code, body.code].find(isErrorCode) ?? CODE_OF_STATUS[status] ?? 'UNKNOWN';
  const message =
    typeof body.error === 'string' ? body.error : `HTTP ${status}${text === '' ? '' : `: ${text.slice(0, 200)}`}`;
  return new NereidError(known, message, {
    status,
    field: told.get('field') ?? (typeof body.field === 'string' ? body.field : undefined),
    reason: told.get('reason'),
    requestId: headers.get('Nereid-Request-Id') ?? undefined,
    retryAfterMs: retryAfterMs(headers.get('Retry-After'), nowMs),
  });
}

/** The error of a failed job: `CODE: text`. What is not ours is INTERNAL. */
export function failedReasonError(failedReason: string): NereidError {
  const [code = '', text] = splitOnce(failedReason, ': ');
  return isErrorCode(code) ? new NereidError(code, text) : new NereidError('INTERNAL', failedReason);
}

/** Of a line of a batch: `{code, message, field?, status_code}`. */
export function answerFailure({
  code,
  message,
  field,
  status_code: status,
}: Readonly<Record<string, unknown>>): NereidError {
  return new NereidError(isErrorCode(code) ? code : 'INTERNAL', String(message), {
    field: typeof field === 'string' ? field : undefined,
    status: typeof status === 'number' ? status : undefined,
  });
}

/** Of `Retry-After`, which is seconds or a date. */
function retryAfterMs(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  if (/^[0-9]{1,9}$/.test(header.trim())) return Number(header) * 1000;
  const atMs = Date.parse(header);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}

function splitOnce(text: string, separator: string): readonly [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + separator.length)];
}

function members(text: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
