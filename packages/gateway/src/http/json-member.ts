/** What a member of a small JSON body must be; else INVALID_ARG with Triton's words. `field` is where it stands. */
import { type JsonMember, unsigned, wrongKind } from '@nereid/protocol';

export function textValue(value: JsonMember, name: string, field = name): string {
  if (typeof value === 'string') return value;
  throw wrongKind(name, field, 'JSON non-string as string');
}

export function flagValue(value: JsonMember, name: string, field = name): boolean {
  if (typeof value === 'boolean') return value;
  throw wrongKind(name, field, 'JSON non-boolean as boolean');
}

/** A 64-bit integer from 0. */
export function unsignedValue(value: JsonMember, name: string): bigint {
  const integer = typeof value === 'number' || typeof value === 'bigint' ? unsigned(value) : undefined;
  if (integer !== undefined) return integer;
  throw wrongKind(name, name, 'JSON non-unsigned-integer as unsigned-integer');
}
