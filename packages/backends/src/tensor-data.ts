/**
 * Tensors between the v2 binary form and the typed arrays that models use (little-endian hosts).
 */
import { type Datatype, NereidError } from '@nereid/protocol';

export type NumericArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

interface NumericArrayConstructor {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): NumericArray;
}

/** Every fixed-size datatype with its array: FP16 and BF16 are bits, BOOL is one byte. */
const ARRAYS: Readonly<Record<Exclude<Datatype, 'BYTES'>, NumericArrayConstructor>> = {
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

/** Bytes of the length before each element of a BYTES tensor. */
const ELEMENT_LENGTH_BYTES = 4;

/** The array class that holds a fixed-size datatype. */
export function numericArrayOf(datatype: Exclude<Datatype, 'BYTES'>): NumericArrayConstructor {
  return ARRAYS[datatype];
}

/** The tensor's bytes as a typed array: a view where they are aligned, else a copy. */
export function numericView(datatype: Exclude<Datatype, 'BYTES'>, data: Uint8Array): NumericArray {
  const ArrayClass = ARRAYS[datatype];
  const size = ArrayClass.BYTES_PER_ELEMENT;
  const aligned = data.byteOffset % size === 0 ? data : data.slice();
  return new ArrayClass(aligned.buffer, aligned.byteOffset, aligned.byteLength / size);
}

/** The bytes under a typed array, as a view. */
export function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/**
 * The elements of a BYTES tensor as views, in order.
 * Throws INVALID_ARG naming the tensor where the lengths do not add up.
 */
export function bytesElements(name: string, data: Uint8Array): Uint8Array[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const elements: Uint8Array[] = [];
  let offset = 0;
  while (offset < data.byteLength) {
    const start = offset + ELEMENT_LENGTH_BYTES;
    const end = start <= data.byteLength ? start + view.getUint32(offset, true) : start;
    if (end > data.byteLength) {
      throw new NereidError(
        'INVALID_ARG',
        `element ${elements.length} of BYTES tensor '${name}' is longer than its data`,
      );
    }
    elements.push(data.subarray(start, end));
    offset = end;
  }
  return elements;
}

/** The v2 binary form of BYTES elements, in a buffer of its own. */
export function bytesTensorData(elements: readonly Uint8Array[]): Uint8Array {
  let size = 0;
  for (const element of elements) size += ELEMENT_LENGTH_BYTES + element.byteLength;
  const data = new Uint8Array(size);
  const view = new DataView(data.buffer);
  let offset = 0;
  for (const element of elements) {
    view.setUint32(offset, element.byteLength, true);
    data.set(element, offset + ELEMENT_LENGTH_BYTES);
    offset += ELEMENT_LENGTH_BYTES + element.byteLength;
  }
  return data;
}
