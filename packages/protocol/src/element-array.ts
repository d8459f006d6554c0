import type { Datatype } from './datatype.ts';

export type ElementArray =
  | Uint8Array<ArrayBuffer>
  | Int8Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Int16Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | BigUint64Array<ArrayBuffer>
  | BigInt64Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
  | Float64Array<ArrayBuffer>;

export interface ElementArrayConstructor {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): ElementArray;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ElementArray;
}

/**
 * The typed array of each fixed-size datatype: BOOL is one byte an element, FP16 and BF16 are their
 * bits. Typed arrays have the host's byte order and the v2 binary form is little-endian; Node runs
 * on no big-endian host that we support.
 */
export const ELEMENT_ARRAYS: Readonly<Record<Exclude<Datatype, 'BYTES'>, ElementArrayConstructor>> = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  BF16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
};

/** Smallest and greatest value of each integer datatype. */
export const INTEGER_RANGES = {
  UINT8: [0n, 255n],
  UINT16: [0n, 65_535n],
  UINT32: [0n, 4_294_967_295n],
  UINT64: [0n, 18_446_744_073_709_551_615n],
  INT8: [-128n, 127n],
  INT16: [-32_768n, 32_767n],
  INT32: [-2_147_483_648n, 2_147_483_647n],
  INT64: [-9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n],
} as const satisfies Partial<Record<Datatype, readonly [bigint, bigint]>>;

/** Also the greatest version of a model, as Triton's are signed. */
export const INT64_MAX = INTEGER_RANGES.INT64[1];

export type IntegerDatatype = keyof typeof INTEGER_RANGES;

export function isIntegerDatatype(datatype: Datatype): datatype is IntegerDatatype {
  return Object.hasOwn(INTEGER_RANGES, datatype);
}

/** The bytes under a typed array, as a view. */
export function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
