/** The v2 protocol's datatypes, with bytes per element; BYTES elements vary (0 here). */
export const DATATYPE_BYTES = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  BF16: 2,
  FP32: 4,
  FP64: 8,
  BYTES: 0,
} as const;

export type Datatype = keyof typeof DATATYPE_BYTES;

/** True for the protocol's exact upper-case names; `TYPE_FP32` and `fp32` are not. */
export function isDatatype(name: unknown): name is Datatype {
  return typeof name === 'string' && Object.hasOwn(DATATYPE_BYTES, name);
}
