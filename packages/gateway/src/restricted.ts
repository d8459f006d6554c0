import { createHash, timingSafeEqual } from 'node:crypto';
import { badOption } from '@nereid/config';
import type { Result } from './result.ts';

/** Triton's groups of calls (restricted_features.h). */
export const API_CATEGORIES = [
  'health',
  'metadata',
  'inference',
  'shared-memory',
  'model-config',
  'model-repository',
  'statistics',
  'trace',
  'logging',
] as const;

export type ApiCategory = (typeof API_CATEGORIES)[number];

/** What a call must bring: a header (metadata, in gRPC) with a certain value. */
export interface RestrictedKey {
  /** The header's name as the flag has it; names of headers are compared without regard to case. */
  readonly name: string;
  /** Of the value's UTF-8. */
  readonly digest: Uint8Array;
}

/** The groups that need a key; the others are open to all. */
export type RestrictedApis = ReadonlyMap<ApiCategory, RestrictedKey>;

const GROUP = /^([^:]*):([^=]*)=(.*)$/s;
/** What can stand as the name of a header. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Reads entries `<api>,…:<name>=<value>` of `--http-restricted-api` and `--grpc-restricted-protocol`
 * (docs/customization_guide of Triton, "Limit Endpoint Access"). The error names the flag and the fix,
 * never the value, which is a secret.
 */
export function parseRestricted(entries: readonly string[], flag = 'http-restricted-api'): Result<RestrictedApis> {
  const apis = new Map<ApiCategory, RestrictedKey>();
  const refuse = (why: string): Result<RestrictedApis> => ({ ok: false, error: badOption(flag, why) });
  for (const entry of entries) {
    const [, list, name = '', value = ''] = GROUP.exec(entry) ?? [];
    if (list === undefined) return refuse('give <api>,…:<header>=<value>, e.g. model-repository:admin-key=secret');
    if (!HEADER_NAME.test(name)) return refuse(`'${name}' cannot be the name of a header; give letters, digits and -`);
    if (value === '' || value !== value.trim() || /[\r\n\0]/.test(value)) {
      return refuse(`the value of '${name}' must be a text without line breaks, nor blanks at its ends`);
    }
    for (const api of list.split(',').map((each) => each.trim())) {
      if (!isCategory(api)) return refuse(`unknown API '${api}'; give some of ${API_CATEGORIES.join(', ')}`);
      if (apis.has(api)) return refuse(`'${api}' is given twice; an API can have one header only`);
      apis.set(api, restrictedKey(name, value));
    }
  }
  return { ok: true, value: apis };
}

/** Of `--admin-key`; in gRPC metadata as well. */
export const ADMIN_KEY_HEADER = 'Nereid-Admin-Key';

/** What admin calls must bring; undefined where only callers on this machine may make them. */
export function adminKey(value: string | undefined): RestrictedKey | undefined {
  return value === undefined || value === '' ? undefined : restrictedKey(ADMIN_KEY_HEADER, value);
}

export function restrictedKey(name: string, value: string): RestrictedKey {
  return { name, digest: digestOf(Buffer.from(value)) };
}

/**
 * True where a call brings the key; `given` is what stands in its header, undefined for none. How long
 * it takes does not tell how much of a wrong value is right.
 */
export function bringsKey({ digest }: RestrictedKey, given: string | undefined): boolean {
  if (given === undefined) return false;
  // Node reads the bytes of a header as latin1.
  return timingSafeEqual(digestOf(Buffer.from(given, 'latin1')), digest);
}

/** Of one length, as the comparison wants it. */
function digestOf(bytes: Uint8Array): Uint8Array {
  return createHash('sha256').update(bytes).digest();
}

function isCategory(text: string): text is ApiCategory {
  return (API_CATEGORIES as readonly string[]).includes(text);
}
