import {
  type Datatype,
  type FixedDatatype,
  INTEGER_RANGES,
  isDatatype,
  TYPED_ARRAYS,
  type TypedArray,
  type TypedArrays,
} from './datatype.ts';
import { NereidError } from './error.ts';
import { fp32ToBf16, fp32ToFp16 } from './half.ts';

/**
 * What a tensor can be made of: a typed array of its datatype (BOOL: Uint8Array; FP16 and BF16: Uint16Array of their
 * bits, or a Float32Array, which is converted), or an array of booleans for BOOL, of numbers or bigints for integers,
 * of numbers for floats, of texts or bytes for BYTES.
 */
export type TensorValues =
  | ArrayBufferView
  | readonly number[]
  | readonly bigint[]
  | readonly boolean[]
  | readonly (string | Uint8Array)[];

export interface TensorInput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Row by row. */
  readonly data: TensorValues;
}

/** By its `datatype`, `data` is the typed array of that; for BYTES one Uint8Array an element, see `texts`. */
export type TensorOutput =
  | {
      [D in FixedDatatype]: { readonly datatype: D; readonly shape: readonly number[]; readonly data: TypedArrays[D] };
    }[FixedDatatype]
  | {
      readonly datatype: 'BYTES';
      readonly shape: readonly number[];
      readonly data: readonly Uint8Array<ArrayBuffer>[];
    };

/** Before each element of BYTES stands its length, a little-endian uint32. */
const LENGTH_BYTES = 4;

/** The elements of a BYTES tensor as texts. Throws INVALID_ARG for any other. */
export function texts(tensor: TensorOutput | undefined): string[] {
  if (tensor?.datatype !== 'BYTES') {
    throw new NereidError('INVALID_ARG', `texts are in BYTES tensors, this is ${tensor?.datatype ?? 'none'}`);
  }
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return tensor.data.map((element) => decoder.decode(element));
}

/**
 * The v2 binary form. The bytes of a typed array of the datatype's own kind are taken without a copy.
 * Throws INVALID_ARG naming the tensor where its values do not fit.
 */
export function tensorBytes(name: string, { datatype, shape, data }: TensorInput): Uint8Array {
  if (!isDatatype(datatype)) {
    throw wrong(
      name,
      `datatype is ${String(datatype)}; it must be one of BYTES, ${Object.keys(TYPED_ARRAYS).join(', ')}`,
    );
  }
  if (!Array.isArray(shape) || !shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 0)) {
    throw wrong(name, 'shape must be an array of whole numbers that are not negative');
  }
  if (!Array.isArray(data) && !ArrayBuffer.isView(data)) throw wrong(name, 'data must be a typed array or an array');
  const wanted = shape.reduce((product, dimension) => product * dimension, 1);
  const { length } = data as ArrayLike<unknown>;
  if (wanted !== length) throw wrong(name, `shape [${shape}] needs ${wanted} elements but there are ${length}`);
  if (ArrayBuffer.isView(data)) return viewBytes(name, datatype, data);
  return datatype === 'BYTES' ? textBytes(name, data) : bytesOf(elements(name, datatype, data));
}

function viewBytes(name: string, datatype: Datatype, view: ArrayBufferView): Uint8Array {
  if (datatype !== 'BYTES' && view instanceof TYPED_ARRAYS[datatype]) return bytesOf(view);
  if (view instanceof Float32Array && datatype === 'FP16') return bytesOf(fp32ToFp16(view));
  if (view instanceof Float32Array && datatype === 'BF16') return bytesOf(fp32ToBf16(view));
  throw wrong(name, `${view.constructor.name} does not hold ${datatype}`);
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function textBytes(name: string, values: readonly unknown[]): Uint8Array {
  const encoder = new TextEncoder();
  const parts = values.map((value) => {
    if (typeof value === 'string') return encoder.encode(value);
    return value instanceof Uint8Array ? value : refuse(name, 'BYTES', value);
  });
  const out = new Uint8Array(parts.reduce((size, part) => size + LENGTH_BYTES + part.byteLength, 0));
  const view = new DataView(out.buffer);
  let end = 0;
  for (const part of parts) {
    view.setUint32(end, part.byteLength, true);
    out.set(part, end + LENGTH_BYTES);
    end += LENGTH_BYTES + part.byteLength;
  }
  return out;
}

/** The typed array of what `values` say. Throws INVALID_ARG for one that is no value of the datatype. */
function elements(name: string, datatype: FixedDatatype, values: readonly unknown[]): TypedArray {
  const range = INTEGER_RANGES[datatype];
  if (datatype === 'BOOL') {
    return Uint8Array.from(values, (value) =>
      typeof value === 'boolean' ? Number(value) : refuse(name, datatype, value),
    );
  }
  if (range === undefined) {
    const numbers = values.map((value) => (typeof value === 'number' ? value : refuse(name, datatype, value)));
    if (datatype === 'FP64') return Float64Array.from(numbers);
    const floats = Float32Array.from(numbers);
    if (datatype === 'FP32') return floats;
    return datatype === 'FP16' ? fp32ToFp16(floats) : fp32ToBf16(floats);
  }
  const [min, max] = range;
  const out = new TYPED_ARRAYS[datatype](values.length);
  const long = out instanceof BigInt64Array || out instanceof BigUint64Array;
  for (const [index, value] of values.entries()) {
    const whole =
      typeof value === 'bigint' || Number.isInteger(value) ? (value as number | bigint) : refuse(name, datatype, value);
    if (whole < min || whole > max) refuse(name, datatype, value);
    out[index] = long ? BigInt(whole) : Number(whole);
  }
  return out;
}

/**
 * A tensor of its binary form; its elements lie in `bytes` unless they are misaligned there.
 * Throws INTERNAL where the server's bytes do not fit together.
 */
export function tensorOfBytes(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  bytes: Uint8Array<ArrayBuffer>,
): TensorOutput {
  if (datatype === 'BYTES') return { datatype, shape, data: byteElements(name, bytes) };
  const Elements = TYPED_ARRAYS[datatype];
  const size = Elements.BYTES_PER_ELEMENT;
  if (bytes.byteLength % size !== 0)
    throw broken(name, `${bytes.byteLength} bytes are no whole elements of ${datatype}`);
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  const data = new Elements(aligned.buffer, aligned.byteOffset, aligned.byteLength / size);
  return { datatype, shape, data } as TensorOutput;
}

function byteElements(name: string, bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const start = at + LENGTH_BYTES;
    const end = start <= bytes.byteLength ? start + view.getUint32(at, true) : start;
    if (end > bytes.byteLength) throw broken(name, `element ${out.length} goes beyond the tensor's bytes`);
    out.push(bytes.subarray(start, end));
    at = end;
  }
  return out;
}

/**
 * A tensor of its JSON form, whose arrays may nest. In a job's return value 64-bit integers, NaN and Infinity may be
 * texts. Throws INTERNAL where the values do not fit together.
 */
export function tensorOfJson(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  json: readonly unknown[],
): TensorOutput {
  const values = json.flat(Number.POSITIVE_INFINITY);
  const read = values.map((value) =>
    typeof value === 'string' && datatype !== 'BYTES' ? numberOf(datatype, value) : value,
  );
  try {
    const bytes = tensorBytes(name, { datatype, shape, data: read as TensorValues & readonly unknown[] });
    return tensorOfBytes(name, datatype, shape, new Uint8Array(bytes));
  } catch (thrown) {
    throw broken(name, thrown instanceof Error ? thrown.message : String(thrown));
  }
}

function numberOf(datatype: Datatype, text: string): bigint | number | string {
  if (INTEGER_RANGES[datatype] === undefined) return Number(text);
  return /^-?[0-9]{1,20}$/.test(text) ? BigInt(text) : text;
}

function refuse(name: string, datatype: Datatype, value: unknown): never {
  throw wrong(name, `${typeof value === 'string' ? JSON.stringify(value) : String(value)} is no ${datatype} value`);
}

function wrong(name: string, why: string): NereidError {
  return new NereidError('INVALID_ARG', `tensor '${name}': ${why}`);
}

function broken(name: string, why: string): NereidError {
  return new NereidError('INTERNAL', `output '${name}' of the server's answer: ${why}`);
}
