import { NereidError } from './error.ts';
import type { JsonScalar } from './json-reader.ts';
import { unsigned } from './v2-parameters.ts';

/** A member that must be text. `field` is the object that it is a member of. */
export function textMember(value: JsonScalar | undefined, member: string, field: string): string {
  if (typeof value === 'string') return value;
  throw value === undefined
    ? missingMember(member, field)
    : wrongKind(member, `${field}.${member}`, 'JSON non-string as string');
}

/** A parameter that must be a 64-bit integer from 0; undefined where it is not given. */
export function unsignedMember(value: JsonScalar | undefined, member: string, field: string): bigint | undefined {
  if (value === undefined) return undefined;
  const integer = unsigned(value);
  if (integer !== undefined) return integer;
  throw wrongKind(member, `${field}.${member}`, 'JSON non-unsigned-integer as unsigned-integer');
}

/** Triton's words for a member that is not there. */
export function missingMember(member: string, field: string): NereidError {
  return new NereidError(
    'INVALID_ARG',
    `Unable to parse '${member}': attempt to access non-existing object member '${member}'`,
    { field: field === '' ? member : `${field}.${member}` },
  );
}

/** Triton's words for a member of the wrong kind. */
export function wrongKind(member: string, field: string, words: string): NereidError {
  return new NereidError('INVALID_ARG', `Unable to parse '${member}': attempt to access ${words}`, { field });
}

/** Triton's words for a shape of more elements than can be counted. */
export function shapeOverflow(input: string, shape: readonly JsonScalar[], field: string): NereidError {
  const text =
    `invalid shape for input '${input}': shape [${shape.join(',')}] causes total element count to exceed ` +
    `maximum size of ${Number.MAX_SAFE_INTEGER}`;
  return new NereidError('INVALID_ARG', text, { field });
}
