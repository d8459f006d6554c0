/** The first element in which two tensors of one datatype and shape differ, and how much they differ in all. */
import { isUtf8 } from 'node:buffer';
import { bytesElements } from './bytes-elements.ts';
import type { Datatype } from './datatype.ts';
import { ELEMENT_ARRAYS } from './element-array.ts';
import { NereidError } from './error.ts';
import { bf16ToFp32, fp16ToFp32 } from './half.ts';
import { elementCount } from './tensor.ts';
import { typedView } from './tensor-values.ts';

/**
 * `exact`: bit for bit, so that 0 and -0 differ and a NaN equals itself. Else floating point values are equal where
 * |recorded - replayed| <= atol + rtol * |recorded|; NaN equals NaN, an infinity itself. Other datatypes are always exact.
 */
export type Tolerance = 'exact' | { readonly atol: number; readonly rtol: number };

/**
 * An element as JSON can hold it: 64-bit integers, NaN, infinities and -0 as text. BYTES as text where they are UTF-8;
 * of a long one the part around the first byte that differs.
 */
export type ShownValue = string | number | boolean | { readonly base64: string };

export interface ElementsDifference {
  /** Of the first element that differs, by dimension; empty for a scalar, and for data that do not fit the shape. */
  readonly index: readonly number[];
  readonly recorded: ShownValue | null;
  readonly replayed: ShownValue | null;
  /** Elements that differ, and all there are. */
  readonly differing: number;
  readonly elements: number;
  /** The largest absolute difference between numbers; absent where none can be told. */
  readonly largest?: number | string;
}

/** Bytes shown of a long element, and how many of them at most stand before the first that differs. */
const SHOWN_BYTES = 256;
const SHOWN_BEFORE_BYTES = 64;

export function elementsDifference(
  datatype: Datatype,
  shape: readonly number[],
  recorded: Uint8Array,
  replayed: Uint8Array,
  tolerance: Tolerance,
): ElementsDifference | undefined {
  if (Buffer.compare(recorded, replayed) === 0) return undefined;
  if (datatype === 'BYTES') return bytesDifference(shape, recorded, replayed);
  const size = ELEMENT_ARRAYS[datatype].BYTES_PER_ELEMENT;
  if (recorded.byteLength !== replayed.byteLength || recorded.byteLength % size !== 0) {
    return wholeDifference(recorded, replayed);
  }
  const [was, is] = [numbersOf(datatype, recorded), numbersOf(datatype, replayed)];
  const differs =
    isFloat(datatype) && tolerance !== 'exact' ? beyond(was, is, tolerance) : unequal(recorded, replayed, size);
  return numbersDifference(datatype, shape, was, is, differs);
}

type Numbers = { readonly length: number; readonly [index: number]: number | bigint };
type Differs = (index: number) => boolean;

function numbersOf(datatype: Exclude<Datatype, 'BYTES'>, data: Uint8Array): Numbers {
  const values = typedView({ name: '', datatype, shape: [], data });
  if (datatype === 'FP16') return fp16ToFp32(values as Uint16Array);
  return datatype === 'BF16' ? bf16ToFp32(values as Uint16Array) : values;
}

function isFloat(datatype: Datatype): boolean {
  return datatype === 'FP16' || datatype === 'BF16' || datatype === 'FP32' || datatype === 'FP64';
}

function beyond(was: Numbers, is: Numbers, { atol, rtol }: Exclude<Tolerance, 'exact'>): Differs {
  return (index) => {
    const [a, b] = [Number(was[index]), Number(is[index])];
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return false;
    if (!Number.isFinite(a) || !Number.isFinite(b)) return true;
    return !(Math.abs(a - b) <= atol + rtol * Math.abs(a));
  };
}

function unequal(recorded: Uint8Array, replayed: Uint8Array, size: number): Differs {
  return (index) => {
    for (let at = index * size; at < (index + 1) * size; at++) {
      if (recorded[at] !== replayed[at]) return true;
    }
    return false;
  };
}

function numbersDifference(
  datatype: Datatype,
  shape: readonly number[],
  was: Numbers,
  is: Numbers,
  differs: Differs,
): ElementsDifference | undefined {
  let first = -1;
  let differing = 0;
  let largest: number | bigint | undefined;
  for (let index = 0; index < was.length; index++) {
    if (!differs(index)) continue;
    if (differing++ === 0) first = index;
    const distance = distanceOf(was[index] as number | bigint, is[index] as number | bigint);
    if (!Number.isNaN(distance) && (largest === undefined || distance > largest)) largest = distance;
  }
  if (first < 0) return undefined;
  return {
    index: placeOf(first, shape, was.length),
    ...shownNumbers(datatype, was[first] as number | bigint, is[first] as number | bigint),
    differing,
    elements: was.length,
    ...(largest === undefined || datatype === 'BOOL' ? {} : { largest: shownNumber(largest) }),
  };
}

function distanceOf(a: number | bigint, b: number | bigint): number | bigint {
  if (typeof a === 'bigint' && typeof b === 'bigint') return a > b ? a - b : b - a;
  return Math.abs(Number(a) - Number(b));
}

function shownNumbers(
  datatype: Datatype,
  a: number | bigint,
  b: number | bigint,
): Pick<ElementsDifference, 'recorded' | 'replayed'> {
  // A byte that is neither 0 nor 1 is no boolean.
  if (datatype === 'BOOL' && a <= 1 && b <= 1) return { recorded: a === 1, replayed: b === 1 };
  const nan = Number.isNaN(a) && Number.isNaN(b);
  return nan
    ? { recorded: 'NaN', replayed: 'NaN of other bits' }
    : { recorded: shownNumber(a), replayed: shownNumber(b) };
}

function shownNumber(value: number | bigint): number | string {
  if (typeof value === 'bigint' || !Number.isFinite(value)) return String(value);
  return Object.is(value, -0) ? '-0' : value;
}

function bytesDifference(
  shape: readonly number[],
  recorded: Uint8Array,
  replayed: Uint8Array,
): ElementsDifference | undefined {
  const [was, is] = [elementsOf(recorded), elementsOf(replayed)];
  if (was === undefined || is === undefined) return wholeDifference(recorded, replayed);
  const elements = Math.max(was.length, is.length);
  let first = -1;
  let differing = 0;
  for (let index = 0; index < elements; index++) {
    const [a, b] = [was[index], is[index]];
    if (a !== undefined && b !== undefined && Buffer.compare(a, b) === 0) continue;
    if (differing++ === 0) first = index;
  }
  return { index: placeOf(first, shape, elements), ...shownBytes(was[first], is[first]), differing, elements };
}

/** What a model or a file claims to be BYTES need not be. */
function elementsOf(data: Uint8Array): readonly Uint8Array[] | undefined {
  try {
    return bytesElements(data);
  } catch (error) {
    if (error instanceof NereidError) return undefined;
    throw error;
  }
}

function shownBytes(
  a: Uint8Array | undefined,
  b: Uint8Array | undefined,
): Pick<ElementsDifference, 'recorded' | 'replayed'> {
  let same = 0;
  while (a !== undefined && b !== undefined && same < a.byteLength && a[same] === b[same]) same++;
  return { recorded: shownElement(a, same), replayed: shownElement(b, same) };
}

function shownElement(element: Uint8Array | undefined, same: number): ShownValue | null {
  if (element === undefined) return null;
  const bytes = Buffer.from(element.buffer, element.byteOffset, element.byteLength);
  const start = bytes.byteLength <= SHOWN_BYTES ? 0 : Math.max(0, same - SHOWN_BEFORE_BYTES);
  const part = bytes.subarray(start, start + SHOWN_BYTES);
  if (!isUtf8(bytes)) return { base64: part.toString('base64') };
  const end = start + part.byteLength;
  return `${start > 0 ? '…' : ''}${part.toString()}${end < bytes.byteLength ? '…' : ''}`;
}

/** Of data that are no whole elements, or not as many in both: they are one that differs. */
function wholeDifference(recorded: Uint8Array, replayed: Uint8Array): ElementsDifference {
  const lengths = { recorded: `${recorded.byteLength} bytes`, replayed: `${replayed.byteLength} bytes` };
  const shown = recorded.byteLength === replayed.byteLength ? shownBytes(recorded, replayed) : lengths;
  return { index: [], ...shown, differing: 1, elements: 1 };
}

/** The index by dimension of the element at a position, row by row. */
function placeOf(position: number, shape: readonly number[], elements: number): readonly number[] {
  if (elementCount(shape) !== elements) return [];
  const index: number[] = [];
  let rest = position;
  for (const dimension of shape.toReversed()) {
    index.unshift(rest % dimension);
    rest = Math.floor(rest / dimension);
  }
  return index;
}
