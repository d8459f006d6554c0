import { randomBytes, randomUUID } from 'node:crypto';

/** An id of the same kind, since a model may take no other; a number is of 63 bits, as CORRID controls may be signed. */
export function freshCorrelationId(like: bigint | string, purpose: string): bigint | string {
  return typeof like === 'string' ? `${purpose}-${randomUUID()}` : (randomBytes(8).readBigUInt64LE() >> 1n) | 1n;
}
