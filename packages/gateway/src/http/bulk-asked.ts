/** What headers and query of a call about batches ask for. */
import type { IncomingHttpHeaders } from 'node:http';
import { NereidError } from '@nereid/protocol';
import { BULK_DEFAULTS, type BulkWishes } from '../bulk.ts';
import { decodedText } from './query.ts';

const ATTEMPTS_MAX = 100;
const DAYS_30_S = 2_592_000;
const YEAR_MS = 31_536_000_000;
const PAGE_MAX = 100;
const PAGE_DEFAULT = 20;

/** Headers of jobs that batches do not have: one who sends them relies on them. */
const NOT_SERVED = ['Idempotency-Key', 'Nereid-Webhook', 'Nereid-Tag', 'Nereid-Priority', 'Nereid-Delay-Ms'];

/** Throws INVALID_ARG or UNSUPPORTED naming the header. */
export function bulkWishes(headers: IncomingHttpHeaders): BulkWishes {
  const refused = NOT_SERVED.find((name) => headers[name.toLowerCase()] !== undefined);
  if (refused !== undefined)
    throw new NereidError('UNSUPPORTED', `batches do not have the header ${refused}; leave it out`, { field: refused });
  const whole = (name: string, missing: number, min: number, max: number) =>
    wholeNumber(headers[name.toLowerCase()], name, missing, min, max);
  return {
    deadlineMs: whole('Nereid-Deadline-Ms', BULK_DEFAULTS.deadlineMs, 1, YEAR_MS),
    attempts: whole('Nereid-Attempts', BULK_DEFAULTS.attempts, 1, ATTEMPTS_MAX),
    resultTtlS: whole('Nereid-Result-Ttl-S', BULK_DEFAULTS.resultTtlS, 1, DAYS_30_S),
  };
}

/** Throws INVALID_ARG naming the member. */
export function bulkListing(query: unknown): { readonly after: string; readonly limit: number } {
  const { after, limit } = membersOf(query);
  return {
    after: after === undefined ? '' : decodedText('after', String(after)),
    limit: wholeNumber(limit, 'limit', PAGE_DEFAULT, 1, PAGE_MAX),
  };
}

export interface BulkResultsAsked {
  /** Only such results; undefined for all. */
  readonly ok: boolean | undefined;
  /** From that line on. */
  readonly from: number;
  /** So many results at most. */
  readonly limit: number;
}

/** Throws INVALID_ARG naming the member. */
export function bulkResultsAsked(query: unknown): BulkResultsAsked {
  const { status, after, limit } = membersOf(query);
  if (status !== undefined && status !== 'completed' && status !== 'failed')
    throw new NereidError('INVALID_ARG', `status must be 'completed' or 'failed', got: ${status}`, { field: 'status' });
  return {
    ok: status === undefined ? undefined : status === 'completed',
    from: after === undefined ? 0 : wholeNumber(after, 'after', 0, 0, Number.MAX_SAFE_INTEGER) + 1,
    limit: wholeNumber(limit, 'limit', Number.MAX_SAFE_INTEGER, 1, Number.MAX_SAFE_INTEGER),
  };
}

function membersOf(query: unknown): Readonly<Record<string, unknown>> {
  return (query as Readonly<Record<string, unknown>> | undefined) ?? {};
}

function wholeNumber(given: unknown, name: string, missing: number, min: number, max: number): number {
  if (given === undefined) return missing;
  const number = /^[0-9]{1,15}$/.test(String(given)) ? Number(given) : -1;
  if (number >= min && number <= max) return number;
  const most = max === Number.MAX_SAFE_INTEGER ? 'on' : `to ${max}`;
  throw new NereidError('INVALID_ARG', `${name} must be an integer from ${min} ${most}, got: ${given}`, {
    field: name,
  });
}
