import type { IncomingHttpHeaders } from 'node:http';
import { jobTags, NereidError, RESULT_TTL_S_MAX, webhookUrl } from '@nereid/protocol';
import { JOB_DEFAULTS, type JobWishes } from '../jobs.ts';

const TAG = 'Nereid-Tag';
const PRIORITY_MAX = 1_000;
const ATTEMPTS_MAX = 100;
const DAYS_30_S = 2_592_000;
const BLOB_TTL_S = 3_600;
const YEAR_MS = 31_536_000_000;
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** A longer wait is cut: proxies end connections that are silent for longer. */
export const WAIT_MS_MAX = 60_000;

/** How long a blob is to be kept. Throws INVALID_ARG naming the header. */
export function blobTtlS(headers: IncomingHttpHeaders): number {
  return wholeOf(headers)('Nereid-Ttl-S', BLOB_TTL_S, 1, DAYS_30_S);
}

/** What the headers of a submission say. Throws INVALID_ARG naming the header. */
export function jobWishes(headers: IncomingHttpHeaders): JobWishes {
  const whole = wholeOf(headers);
  return {
    priority: whole('Nereid-Priority', JOB_DEFAULTS.priority, 0, PRIORITY_MAX),
    delayMs: whole('Nereid-Delay-Ms', JOB_DEFAULTS.delayMs, 0, YEAR_MS),
    deadlineMs: whole('Nereid-Deadline-Ms', JOB_DEFAULTS.deadlineMs, 1, YEAR_MS),
    attempts: whole('Nereid-Attempts', JOB_DEFAULTS.attempts, 1, ATTEMPTS_MAX),
    resultTtlS: whole('Nereid-Result-Ttl-S', JOB_DEFAULTS.resultTtlS, 1, RESULT_TTL_S_MAX),
    tags: tagsOf(headers[TAG.toLowerCase()]),
    webhook: webhookUrl(textOf(headers['nereid-webhook']), 'Nereid-Webhook'),
  };
}

/** Repeated headers are one with commas between, and one may have several. */
function tagsOf(given: string | readonly string[] | undefined): readonly string[] {
  if (given === undefined) return JOB_DEFAULTS.tags;
  const tags = String(textOf(given))
    .split(',')
    .map((tag) => tag.trim());
  return jobTags([...new Set(tags)], TAG);
}

/** Of the bytes of a header, which Node gives as Latin-1: UTF-8, as most clients send, else Latin-1, as `fetch` does. */
function textOf(given: string | readonly string[] | undefined): string | undefined {
  if (given === undefined) return undefined;
  try {
    return UTF_8.decode(Buffer.from(String(given), 'latin1'));
  } catch {
    return String(given);
  }
}

/** Milliseconds of a `wait=30s`; also `500ms`, and a bare number of seconds. Throws INVALID_ARG. */
export function waitMs(query: unknown): number {
  const wait = (query as Readonly<Record<string, unknown>> | undefined)?.wait;
  if (wait === undefined) return 0;
  const [, number, unit] = /^([0-9]{1,9})(ms|s)?$/.exec(String(wait)) ?? [];
  if (number === undefined) {
    throw new NereidError('INVALID_ARG', `wait must be a time like 30s or 500ms, got: ${wait}`, { field: 'wait' });
  }
  return Math.min(Number(number) * (unit === 'ms' ? 1 : 1000), WAIT_MS_MAX);
}

function wholeOf(headers: IncomingHttpHeaders) {
  return (name: string, missing: number, min: number, max: number) => {
    const value = headers[name.toLowerCase()];
    if (value === undefined) return missing;
    const number = /^[0-9]{1,15}$/.test(String(value)) ? Number(value) : -1;
    if (number >= min && number <= max) return number;
    throw new NereidError('INVALID_ARG', `${name} must be an integer from ${min} to ${max}, got: ${value}`, {
      field: name,
    });
  };
}
