/** Protocol's tensor conversions under the names that JavaScript models' requests and answers use. */
import {
  bytesElements as bytesElementsOf,
  type Datatype,
  ELEMENT_ARRAYS,
  type ElementArray,
  encodeBytesElements,
  typedView,
} from '@nereid/protocol';

export { bytesOf, type ElementArray as NumericArray } from '@nereid/protocol';

type FixedSize = Exclude<Datatype, 'BYTES'>;

/** The array class that holds a fixed-size datatype. */
export function numericArrayOf(datatype: FixedSize): (typeof ELEMENT_ARRAYS)[FixedSize] {
  return ELEMENT_ARRAYS[datatype];
}

/** The tensor's bytes as a typed array: a view where they are aligned, else a copy. */
export function numericView(datatype: FixedSize, data: Uint8Array): ElementArray {
  return typedView({ name: '', datatype, shape: [], data });
}

/** The elements of a BYTES tensor as views, in order. Throws INVALID_ARG where the lengths do not add up. */
export function bytesElements(name: string, data: Uint8Array): Uint8Array[] {
  return bytesElementsOf(data, name);
}

/** The v2 binary form of BYTES elements, in a buffer of its own. */
export function bytesTensorData(elements: readonly Uint8Array[]): Uint8Array {
  return encodeBytesElements(elements);
}
