import { NereidError } from '@nereid/protocol';
import type { FastifyRequest } from 'fastify';

/** Rows of one answer, where its caller does not say. */
const LIMIT_DEFAULT = 100;

/** The query's members of these names. Throws INVALID_ARG where one is given more than once. */
export function readQuery<Name extends string>(
  request: FastifyRequest,
  names: readonly Name[],
): { readonly [name in Name]?: string } {
  const query = request.query as Readonly<Record<string, string | readonly string[]>>;
  const read: { [name in Name]?: string } = {};
  for (const name of names) {
    const value = query[name];
    if (typeof value === 'string') read[name] = decodedText(name, value);
    else if (value !== undefined) throw wrongQuery(name, `'${name}' is given more than once`);
  }
  return read;
}

/** The router leaves escapes as they were sent (raw-path.ts). */
export function decodedText(field: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrongQuery(field, `'${field}' has an escape that is none: ${text}`);
  }
}

export function limitOf(text: string | undefined, max: number): number {
  if (text === undefined) return LIMIT_DEFAULT;
  const limit = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= max) return limit;
  throw wrongQuery('limit', `limit must be a whole number from 1 to ${max}, got: ${text}`);
}

export function flagOf(name: string, text: string | undefined): boolean {
  if (text === undefined || text === 'true' || text === 'false') return text === 'true';
  throw wrongQuery(name, `${name} must be true or false, got: ${text}`);
}

export function wrongQuery(field: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
}
