import type { NereidError } from './error.ts';

/** How often, and after how long, a call is made again. */
export interface RetryOptions {
  /** How many times a call may be made in all; 4 by default, 1 for never again. */
  readonly attempts?: number;
  /** The first wait where the server names none, in milliseconds; it doubles each time. 200 by default. */
  readonly delayMs?: number;
  /** No wait is longer, in milliseconds; a server that names a longer one is not asked again. 30,000 by default. */
  readonly delayMsMax?: number;
}

export const RETRY_DEFAULTS: Required<RetryOptions> = { attempts: 4, delayMs: 200, delayMsMax: 30_000 };

/**
 * What may be repeated: after any failure that may pass, since a second run changes nothing; only where the server
 * says that it took nothing; or nothing.
 */
export type Repeatable = 'always' | 'if refused' | 'never';

/** The server, or a proxy before it, cannot at the moment. */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);
/** Nothing was taken: admission refuses before it adds. */
const REFUSED = 429;

export interface Failure {
  readonly error: NereidError;
  /** How many times the call was made. */
  readonly attempts: number;
  readonly repeatable: Repeatable;
  /** How much of the call's time is left, in milliseconds. */
  readonly leftMs: number;
  /** In [0, 1). */
  readonly random: number;
}

/**
 * How long to wait before the call is made again, in milliseconds; undefined for not at all. A server's Retry-After
 * is kept to, with something on top so that those who were refused together do not come back together.
 */
export function retryDelayMs(failure: Failure, retry: Required<RetryOptions>): number | undefined {
  const { error, attempts, repeatable, leftMs, random } = failure;
  if (attempts >= retry.attempts || !mayRepeat(error, repeatable)) return undefined;
  const ownMs = backOffMs(attempts - 1, retry);
  const waitMs =
    error.retryAfterMs === undefined ? (ownMs * (1 + random)) / 2 : error.retryAfterMs + retry.delayMs * random;
  if (error.retryAfterMs !== undefined && error.retryAfterMs > retry.delayMsMax) return undefined;
  return waitMs < leftMs ? waitMs : undefined;
}

/** The pause after so many that were in vain before, in milliseconds. */
export function backOffMs(before: number, { delayMs, delayMsMax }: Required<RetryOptions>): number {
  return Math.min(delayMs * 2 ** before, delayMsMax);
}

function mayRepeat({ status, reason }: NereidError, repeatable: Repeatable): boolean {
  if (repeatable === 'never') return false;
  if (repeatable === 'if refused') return status === REFUSED;
  return status === undefined ? reason === 'connection' : PASSING.has(status);
}
