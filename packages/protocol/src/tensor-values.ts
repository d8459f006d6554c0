/** Tensors between the binary form and JavaScript values. */
import { bytesElements, encodeBytesElements } from './bytes-elements.ts';
import { DATATYPE_BYTES, type Datatype, isDatatype } from './datatype.ts';
import {
  bytesOf,
  ELEMENT_ARRAYS,
  type ElementArray,
  INTEGER_RANGES,
  type IntegerDatatype,
  isIntegerDatatype,
} from './element-array.ts';
import { NereidError } from './error.ts';
import { fp32ToBf16, fp32ToFp16 } from './half.ts';
import { elementCount, type Tensor } from './tensor.ts';

/**
 * What a tensor can be made of. Typed arrays must be those of the datatype (BOOL: Uint8Array; FP16 and
 * BF16: Uint16Array of their bits, or a Float32Array to convert); plain arrays hold booleans for BOOL,
 * numbers or bigints for integers, numbers for floats, text or bytes for BYTES.
 */
export type TensorValues =
  | ElementArray
  | ArrayBufferView
  | readonly number[]
  | readonly bigint[]
  | readonly boolean[]
  | readonly string[]
  | readonly Uint8Array[];

/**
 * A tensor of these values. The bytes of a typed array of the datatype's own kind are taken as they
 * are, without a copy. Throws INVALID_ARG naming the tensor for values that do not fit.
 */
export function tensorFromValues(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  values: TensorValues,
): Tensor {
  checkKinds(name, datatype, shape, values);
  const count = elementCount(shape);
  const length = ArrayBuffer.isView(values) ? (values as ElementArray).length : values.length;
  if (count === undefined || count !== length) {
    throw wrong(name, `shape [${shape}] needs ${count ?? 'too many'} elements but there are ${length}`);
  }
  return { name, datatype, shape: [...shape], data: valueBytes(name, datatype, values, count) };
}

/**
 * The tensor's elements: a typed array, for BYTES one view per element. They lie in the tensor's own
 * bytes unless those are misaligned. BOOL is Uint8Array, FP16 and BF16 are Uint16Array of their bits.
 * Throws INVALID_ARG where data and datatype do not fit together.
 */
export function tensorValues(tensor: Tensor): ElementArray | Uint8Array[] {
  const { name, datatype, data } = tensor;
  return datatype === 'BYTES' ? bytesElements(data, name) : typedView(tensor);
}

/** The elements of a fixed-size tensor as a typed array, copied only where its bytes are misaligned. */
export function typedView(tensor: Tensor): ElementArray {
  const { name, datatype, data } = tensor;
  if (datatype === 'BYTES') throw wrong(name, 'BYTES has no typed array');
  const Elements = ELEMENT_ARRAYS[datatype];
  const size = Elements.BYTES_PER_ELEMENT;
  if (data.byteLength % size !== 0) {
    throw wrong(name, `${data.byteLength} bytes are no whole elements of ${datatype}`);
  }
  const aligned = data.byteOffset % size === 0 ? data : new Uint8Array(data);
  return new Elements(aligned.buffer, aligned.byteOffset, aligned.byteLength / size);
}

/** Callers in plain JavaScript send anything. */
function checkKinds(name: string, datatype: unknown, shape: unknown, values: unknown): void {
  if (!isDatatype(datatype)) {
    throw wrong(name, `datatype is ${String(datatype)}; it must be one of ${Object.keys(DATATYPE_BYTES).join(', ')}`);
  }
  if (!Array.isArray(shape) || !shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 0)) {
    throw wrong(name, 'shape must be an array of whole numbers that are not negative');
  }
  if (!Array.isArray(values) && !ArrayBuffer.isView(values)) {
    throw wrong(name, 'data must be a typed array or an array');
  }
}

function valueBytes(name: string, datatype: Datatype, values: TensorValues, count: number): Uint8Array {
  if (ArrayBuffer.isView(values)) return typedBytes(name, datatype, values);
  if (datatype === 'BYTES') {
    return encodeBytesElements(
      eachOf(values, (value) =>
        typeof value === 'string' || value instanceof Uint8Array ? value : refuse(name, datatype, value),
      ),
    );
  }
  if (datatype === 'BOOL') {
    const bits = eachOf(values, (value) =>
      typeof value === 'boolean' ? Number(value) : refuse(name, datatype, value),
    );
    return Uint8Array.from(bits);
  }
  if (isIntegerDatatype(datatype)) return integerBytes(name, datatype, values, count);
  const doubles = eachOf(values, (value) => (typeof value === 'number' ? value : refuse(name, datatype, value)));
  if (datatype === 'FP64') return bytesOf(Float64Array.from(doubles));
  const floats = Float32Array.from(doubles);
  if (datatype === 'FP32') return bytesOf(floats);
  return bytesOf(datatype === 'FP16' ? fp32ToFp16(floats) : fp32ToBf16(floats));
}

function eachOf<T>(values: TensorValues, convert: (value: unknown) => T): T[] {
  return Array.from(values as ArrayLike<unknown>, convert);
}

function typedBytes(name: string, datatype: Datatype, values: ArrayBufferView): Uint8Array {
  if (datatype !== 'BYTES' && values instanceof ELEMENT_ARRAYS[datatype]) return bytesOf(values);
  if (values instanceof Float32Array && datatype === 'FP16') return bytesOf(fp32ToFp16(values));
  if (values instanceof Float32Array && datatype === 'BF16') return bytesOf(fp32ToBf16(values));
  throw wrong(name, `${values.constructor.name} does not hold ${datatype}`);
}

function integerBytes(name: string, datatype: IntegerDatatype, values: TensorValues, count: number): Uint8Array {
  const [min, max] = INTEGER_RANGES[datatype];
  const out = new ELEMENT_ARRAYS[datatype](count);
  const long = out instanceof BigInt64Array || out instanceof BigUint64Array;
  let index = 0;
  for (const value of eachOf(values, (item) => item)) {
    const integer = typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value));
    if (!integer || value < min || value > max) refuse(name, datatype, value);
    out[index++] = long ? BigInt(value) : Number(value);
  }
  return bytesOf(out);
}

function refuse(name: string, datatype: Datatype, value: unknown): never {
  throw wrong(name, `${typeof value === 'string' ? JSON.stringify(value) : String(value)} is no ${datatype} value`);
}

function wrong(name: string, why: string): NereidError {
  return new NereidError('INVALID_ARG', `tensor '${name}': ${why}`);
}
