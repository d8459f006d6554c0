/** The v2 protocol's datatypes, with the typed array of each: BOOL is a byte an element, FP16 and BF16 are their bits. */
export interface TypedArrays {
  readonly BOOL: Uint8Array<ArrayBuffer>;
  readonly UINT8: Uint8Array<ArrayBuffer>;
  readonly UINT16: Uint16Array<ArrayBuffer>;
  readonly UINT32: Uint32Array<ArrayBuffer>;
  readonly UINT64: BigUint64Array<ArrayBuffer>;
  readonly INT8: Int8Array<ArrayBuffer>;
  readonly INT16: Int16Array<ArrayBuffer>;
  readonly INT32: Int32Array<ArrayBuffer>;
  readonly INT64: BigInt64Array<ArrayBuffer>;
  readonly FP16: Uint16Array<ArrayBuffer>;
  readonly BF16: Uint16Array<ArrayBuffer>;
  readonly FP32: Float32Array<ArrayBuffer>;
  readonly FP64: Float64Array<ArrayBuffer>;
}

export type FixedDatatype = keyof TypedArrays;
/** BYTES elements vary in size; each is a text or bytes. */
export type Datatype = FixedDatatype | 'BYTES';

export type TypedArray = TypedArrays[FixedDatatype];

interface TypedArrayConstructor {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): TypedArray;
  new (buffer: ArrayBuffer, byteOffset: number, length: number): TypedArray;
}

/** Their byte order is the host's, the protocol's is little-endian: so are all hosts of Node and of browsers today. */
export const TYPED_ARRAYS: Readonly<Record<FixedDatatype, TypedArrayConstructor>> = {
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

export function isDatatype(name: unknown): name is Datatype {
  return name === 'BYTES' || (typeof name === 'string' && Object.hasOwn(TYPED_ARRAYS, name));
}

/** Smallest and greatest value of each integer datatype. */
export const INTEGER_RANGES: Readonly<Partial<Record<Datatype, readonly [bigint, bigint]>>> = {
  UINT8: [0n, 255n],
  UINT16: [0n, 65_535n],
  UINT32: [0n, 4_294_967_295n],
  UINT64: [0n, 2n ** 64n - 1n],
  INT8: [-128n, 127n],
  INT16: [-32_768n, 32_767n],
  INT32: [-2_147_483_648n, 2_147_483_647n],
  INT64: [-(2n ** 63n), 2n ** 63n - 1n],
};
