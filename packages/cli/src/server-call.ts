import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import type { WriteText } from './log-destination.ts';

/** What a command that asks a server takes from the process that it runs in. */
export interface CallHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly fetch: (url: URL, init: RequestInit) => Promise<Response>;
  readonly stdout: WriteText;
  readonly stderr: WriteText;
}

export interface ServerCall {
  /** For its error lines, e.g. `sequences ls`. */
  readonly command: string;
  /** Of the server, as `--url` has it. */
  readonly url: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** A member that its answers have; undefined where they have no body. */
  readonly member?: string;
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** JSON; none without it. */
  readonly body?: string | undefined;
  /** How long it may take as a whole; 30,000 unless given. */
  readonly callMsMax?: number;
}

export type ServerAnswer =
  | { readonly ok: true; readonly body: unknown }
  | { readonly ok: false; readonly exitCode: ExitCode };

export const SERVER_URL = 'http://127.0.0.1:8000';
const CALL_MS_MAX = 30_000;
const ADMIN_KEY_VARIABLE = 'NEREID_ADMIN_KEY';

/**
 * Asks a server's HTTP API for JSON; writes what goes wrong as one line on standard error. The admin key, where the
 * environment has one, goes along: not on the command line, which any user of the machine sees.
 */
export async function callServer(
  { command, url, method, path, member, query = {}, body: sent, callMsMax = CALL_MS_MAX }: ServerCall,
  host: CallHost,
): Promise<ServerAnswer> {
  const fail = (text: string, exitCode: ExitCode = EXIT_CODE.failed): ServerAnswer => {
    host.stderr(`nereid ${command}: ${text.replace(/\s*[\r\n]+\s*/g, ' ')}\n`);
    return { ok: false, exitCode };
  };
  const target = targetOf(url, path, query);
  if (target === undefined) return fail(wrongUrl(url), EXIT_CODE.usage);
  let response: Response;
  let text: string;
  try {
    response = await host.fetch(target, {
      method,
      headers: adminHeaders(host),
      ...(sent === undefined ? {} : { body: sent }),
      signal: AbortSignal.timeout(callMsMax),
    });
    text = await response.text();
  } catch (failure) {
    const isLate = (failure as { readonly name?: unknown }).name === 'TimeoutError';
    return fail(isLate ? `${url} has not answered within ${callMsMax / 1000} s` : noServer(url, failure));
  }
  const body = parsed(text);
  if (response.ok && (member === undefined || (isObject(body) && member in body))) return { ok: true, body };
  return fail(refusalOf(url, response.status, body));
}

/** An id of ours fits into a path as it is, escapes and all; anything else is escaped. */
export function inPath(id: string): string {
  return /^[A-Za-z0-9_.~%:-]+$/.test(id) ? id : encodeURIComponent(id);
}

export function wrongUrl(url: string): string {
  return `--url=${url} is no URL of a server: give one like ${SERVER_URL}`;
}

export function noServer(url: string, failure: unknown): string {
  return `no server answers at ${url} (${reasonOf(failure)}): start one, or name another by --url`;
}

/** What an answer that is none says. */
export function refusalOf(url: string, status: number, body: unknown): string {
  const { error } = (body ?? {}) as { readonly error?: unknown };
  return typeof error === 'string' ? error : `${url} answered ${status}: is it a Nereid server's HTTP port?`;
}

export function adminHeaders({ env }: Pick<CallHost, 'env'>): Record<string, string> {
  const key = env[ADMIN_KEY_VARIABLE];
  return key === undefined || key === '' ? {} : { 'Nereid-Admin-Key': key };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Undefined where the URL is none of a server. */
export function targetOf(
  url: string,
  path: string,
  query: Readonly<Record<string, string | undefined>> = {},
): URL | undefined {
  try {
    const base = new URL(url);
    if (!/^https?:$/.test(base.protocol)) return undefined;
    const target = new URL(base.pathname.replace(/\/+$/, '') + path, base);
    for (const [name, value] of Object.entries(query)) if (value !== undefined) target.searchParams.set(name, value);
    return target;
  } catch {
    return undefined;
  }
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `fetch` says only that it failed; what it met is its cause. */
function reasonOf(failure: unknown): string {
  const { cause, message } = failure as { readonly cause?: unknown; readonly message?: unknown };
  const { code, message: why } = (cause ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  return String(code ?? why ?? message ?? failure);
}
