import { answerError, NereidError } from './error.ts';
import { parseJson } from './json.ts';
import { RETRY_DEFAULTS, type Repeatable, type RetryOptions, retryDelayMs } from './retry.ts';

/** What holds for a single call. */
export interface CallOptions {
  /** Ends the call; it then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** For the whole call with its repetitions, in milliseconds; of a stream until it begins. 0 for no limit. */
  readonly timeoutMs?: number | undefined;
  /** In place of the client's. */
  readonly retry?: RetryOptions | undefined;
}

export interface HttpOptions {
  /** The base address of a gateway, such as `http://localhost:8000`. */
  readonly url: string;
  /** Sent with each call: keys of restricted APIs, `Nereid-Admin-Key`, `Authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly retry?: RetryOptions;
  /** Of calls that name none, in milliseconds: 300,000 by default. */
  readonly timeoutMs?: number;
  /** In place of the global one. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** Time and chance, so that tests need neither. */
export interface Seams {
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

const SYSTEM: Seams = { nowMs: Date.now, random: Math.random, sleep };

/** One that is a stream can be sent once. */
export type Body = Uint8Array<ArrayBuffer> | string | Blob | ReadableStream<Uint8Array>;

export interface Call extends CallOptions {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Body | undefined;
  readonly repeatable: Repeatable;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

export interface Http {
  /** The whole answer of a success. Throws NereidError, or the reason of the call's signal. */
  call(call: Call): Promise<Answer>;
  /** Likewise, as JSON. */
  json(call: Call): Promise<unknown>;
  /** A success whose body is still to be read. */
  open(call: Call): Promise<Response>;
}

const TIMEOUT_MS = 300_000;

export function createHttp(options: HttpOptions, seams: Seams = SYSTEM): Http {
  const base = baseUrl(options.url);
  const send = options.fetch ?? ((url: string, init: RequestInit) => fetch(url, init));

  /** One time; rejects with NereidError, or with the reason of the signal. */
  const once = async <T>(call: Call, limit: Limit, read: (response: Response) => Promise<T>): Promise<T> => {
    try {
      const response = await send(base + call.path, {
        method: call.method,
        headers: { ...options.headers, ...call.headers },
        ...(call.body === undefined ? {} : { body: call.body }),
        // Asked for by those that can send a stream; TypeScript's DOM does not know it yet.
        ...(call.body instanceof ReadableStream ? { duplex: 'half' } : {}),
        signal: limit.signal,
      });
      if (response.ok) return await read(response);
      throw answerError(response, await response.text(), seams.nowMs());
    } catch (thrown) {
      if (thrown instanceof NereidError) throw thrown;
      if (limit.signal.aborted) throw limit.reason();
      throw new NereidError('UNAVAILABLE', `${call.method} ${base}${call.path}: ${textOf(thrown)}`, {
        reason: 'connection',
        cause: thrown,
      });
    }
  };

  const repeat = async <T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> => {
    const timeoutMs = call.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS;
    const retry = { ...RETRY_DEFAULTS, ...options.retry, ...call.retry };
    const limit = limitOf(call.signal, timeoutMs);
    const endMs = timeoutMs === 0 ? Number.POSITIVE_INFINITY : seams.nowMs() + timeoutMs;
    try {
      for (let attempts = 1; ; attempts++) {
        try {
          return await once(call, limit, read);
        } catch (error) {
          if (!(error instanceof NereidError)) throw error;
          const leftMs = endMs - seams.nowMs();
          const failure = { error, attempts, repeatable: call.repeatable, leftMs, random: seams.random() };
          const waitMs = retryDelayMs(failure, retry);
          if (waitMs === undefined) throw error;
          await seams.sleep(waitMs, limit.signal).catch(() => Promise.reject(limit.reason()));
        }
      }
    } finally {
      limit.clear();
    }
  };

  const whole = async (response: Response): Promise<Answer> => {
    const { status, headers } = response;
    return { status, headers, body: new Uint8Array(await response.arrayBuffer()) };
  };
  return {
    call: (call) => repeat(call, whole),
    json: (call) => repeat(call, async (response) => parseJson(await response.text())),
    // A stream may last: the call's own signal ends it, its time-out does not.
    open: (call) => repeat(call, (response) => Promise.resolve(response)),
  };
}

/** Without the slashes at its end. Throws INVALID_ARG where it is no address of HTTP. */
function baseUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol) || parsed.search + parsed.hash !== '') {
    throw new NereidError('INVALID_ARG', `url must be an address such as http://localhost:8000, got: ${url}`, {
      field: 'url',
    });
  }
  return parsed.href.replace(/\/+$/, '');
}

/** When a call has to end. */
interface Limit {
  readonly signal: AbortSignal;
  /** What the call then throws. */
  reason(): unknown;
  /** Takes the time-out away. */
  clear(): void;
}

function limitOf(signal: AbortSignal | undefined, timeoutMs: number): Limit {
  signal?.throwIfAborted();
  const late = new AbortController();
  const timer = timeoutMs === 0 ? undefined : setTimeout(() => late.abort(), timeoutMs);
  return {
    signal: signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]),
    reason: () =>
      signal?.aborted === true
        ? signal.reason
        : new NereidError('UNAVAILABLE', `no answer within ${timeoutMs} ms`, { reason: 'timeout' }),
    clear: () => clearTimeout(timer),
  };
}

/** Rejects as soon as the signal is aborted. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', left);
      settle();
    };
    const left = () => end(() => reject(signal?.reason));
    const timer = setTimeout(() => end(resolve), ms);
    if (signal?.aborted) left();
    else signal?.addEventListener('abort', left);
  });
}

/** undici's errors have what happened in their cause. */
function textOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown.cause instanceof Error ? `${thrown.message} (${thrown.cause.message})` : thrown.message;
}
