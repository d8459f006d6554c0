import { DATATYPE_BYTES, type Datatype } from './datatype.ts';

/**
 * A named tensor in the one internal form.
 * `data` is the v2 binary form: little-endian, row-major, no padding; a BYTES element is a
 * uint32 length and that many bytes. It is a view on the received bytes wherever possible, so its
 * byteOffset need not be aligned, and whoever holds it must not write to it.
 */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  /** Non-negative safe integers. */
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/**
 * Product of the dimensions, 1 for a scalar; undefined where it is no safe integer
 * (shape products that overflow are a client's mistake, never an allocation).
 */
export function elementCount(shape: readonly number[]): number | undefined {
  let count = 1;
  for (const dimension of shape) count *= dimension;
  return Number.isSafeInteger(count) ? count : undefined;
}

/** Bytes of a fixed-size tensor; undefined for BYTES and for products that overflow. */
export function fixedByteSize(datatype: Datatype, shape: readonly number[]): number | undefined {
  const size = DATATYPE_BYTES[datatype];
  const count = elementCount(shape);
  if (size === 0 || count === undefined) return undefined;
  const bytes = count * size;
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
