/**
 * The fast reader of `"data": […]` where datatype and count are known: numbers and booleans, nested
 * in any way, straight into the tensor's bytes. It knows no errors: whatever is unusual (a wrong
 * count, type or range, NaN, syntax) makes it give up, and json-elements.ts reads the same text again,
 * completely and with the error's words. Both give the same bits wherever this one succeeds.
 */
import type { Datatype } from './datatype.ts';
import { bytesOf } from './element-array.ts';

/** Elements and where the text goes on after the closing bracket. */
export interface FastElements {
  readonly data: Uint8Array;
  readonly end: number;
}

/**
 * Reads one element at `position` into place `index` of its array; returns its end, -1 to give up.
 */
type ReadElement = (bytes: Uint8Array, position: number, index: number) => number;

const GIVE_UP = -1;
/** Sums of digits below this are exact in a double. */
const EXACT_END = 9_007_199_254_740_992;
/** Powers of ten up to 10^22 are exact in a double. */
const EXACT_POWER_MAX = 22;
/** For FP32 the inexact powers do too, far from the ends of a double's range. */
const ROUGH_POWER_MAX = 100;
/** With this many digits the sum of the digits is off by 2^-50 at the most. */
const ROUGH_DIGITS_MAX = 19;
const ROUGH_BELOW = 1 - 2 ** -48;
const ROUGH_ABOVE = 1 + 2 ** -48;
const POWERS_OF_TEN = Float64Array.from({ length: ROUGH_POWER_MAX + 1 }, (_, power) => Number(`1e${power}`));

const TWO_16 = 65_536;
const TWO_32 = 4_294_967_296;
const LOW_DIGITS_BASE = 1_000_000_000;

/**
 * The `count` (at least 1) elements of the array whose bracket is at `position`; undefined to give
 * up. Memory is taken for `count` elements only where the text left could hold as many.
 */
export function readElementsFast(
  bytes: Uint8Array,
  position: number,
  datatype: Datatype,
  count: number,
  depthMax: number,
): FastElements | undefined {
  if (count * 2 > bytes.byteLength - position) return undefined;
  const target = elementReader(datatype, count);
  if (target === undefined) return undefined;
  const end = readNested(bytes, position + 1, count, depthMax, target.read);
  return end === GIVE_UP ? undefined : { data: target.data, end };
}

function readNested(bytes: Uint8Array, start: number, count: number, depthMax: number, read: ReadElement): number {
  let position = start;
  let index = 0;
  let depth = 1;
  for (;;) {
    let byte = bytes[position] as number;
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++position] as number;
    if (byte === 0x5b) {
      if (++depth > depthMax) return GIVE_UP;
      position++;
      continue;
    }
    if (index === count) return GIVE_UP;
    position = read(bytes, position, index);
    if (position === GIVE_UP) return GIVE_UP;
    index++;
    for (;;) {
      byte = bytes[position++] as number;
      if (byte === 0x2c) break;
      if (byte === 0x5d) {
        if (--depth === 0) return index === count ? position : GIVE_UP;
      } else if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) {
        return GIVE_UP;
      }
    }
  }
}

function elementReader(datatype: Datatype, count: number): { data: Uint8Array; read: ReadElement } | undefined {
  switch (datatype) {
    case 'FP32':
      return floatReader(new Float32Array(count), true);
    case 'FP64':
      return floatReader(new Float64Array(count), false);
    case 'INT8':
      return integerReader(new Int8Array(count), -0x80, 0x7f);
    case 'UINT8':
      return integerReader(new Uint8Array(count), 0, 0xff);
    case 'INT16':
      return integerReader(new Int16Array(count), -0x8000, 0x7fff);
    case 'UINT16':
      return integerReader(new Uint16Array(count), 0, 0xffff);
    case 'INT32':
      return integerReader(new Int32Array(count), -0x80000000, 0x7fffffff);
    case 'UINT32':
      return integerReader(new Uint32Array(count), 0, 0xffffffff);
    case 'INT64':
      return longReader(new Uint32Array(2 * count), true);
    case 'UINT64':
      return longReader(new Uint32Array(2 * count), false);
    case 'BOOL':
      return booleanReader(new Uint8Array(count));
    default:
      return undefined;
  }
}

function booleanReader(out: Uint8Array): { data: Uint8Array; read: ReadElement } {
  const read: ReadElement = (bytes, position, index) => {
    if (bytes[position] === 0x74) {
      out[index] = 1;
      return isWord(bytes, position, 'true') ? position + 4 : GIVE_UP;
    }
    return isWord(bytes, position, 'false') ? position + 5 : GIVE_UP;
  };
  return { data: out, read };
}

function isWord(bytes: Uint8Array, position: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) {
    if (bytes[position + index] !== word.charCodeAt(index)) return false;
  }
  return true;
}

function integerReader(
  out: Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array,
  min: number,
  max: number,
): { data: Uint8Array; read: ReadElement } {
  const read: ReadElement = (bytes, start, index) => {
    const negative = bytes[start] === 0x2d;
    let position = negative ? start + 1 : start;
    const first = position;
    let digit = (bytes[position] as number) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return GIVE_UP;
    let value = digit;
    digit = (bytes[++position] as number) - 0x30;
    while (digit >= 0 && digit <= 9) {
      value = value * 10 + digit;
      digit = (bytes[++position] as number) - 0x30;
    }
    if (bytes[first] === 0x30 && position > first + 1) return GIVE_UP;
    if (negative) value = -value;
    if (value < min || value > max) return GIVE_UP;
    out[index] = value;
    return position;
  };
  return { data: bytesOf(out), read };
}

/**
 * 64-bit integers as two 32-bit halves: the last nine digits and those before are summed apart, so
 * that every step is exact in a double.
 */
function longReader(out: Uint32Array, signed: boolean): { data: Uint8Array; read: ReadElement } {
  const read: ReadElement = (bytes, start, index) => {
    const negative = bytes[start] === 0x2d;
    if (negative && !signed) return GIVE_UP;
    const first = negative ? start + 1 : start;
    let end = first;
    let byte = bytes[end] as number;
    while (byte >= 0x30 && byte <= 0x39) byte = bytes[++end] as number;
    const digits = end - first;
    if (digits === 0 || digits > 20 || (digits > 1 && bytes[first] === 0x30)) return GIVE_UP;
    const split = digits > 9 ? end - 9 : first;
    let high = 0;
    for (let position = first; position < split; position++) high = high * 10 + (bytes[position] as number) - 0x30;
    let low = 0;
    for (let position = split; position < end; position++) low = low * 10 + (bytes[position] as number) - 0x30;
    // high · 10^9 + low, with high = upper · 2^16 + lower
    const highUpper = Math.floor(high / TWO_16);
    const upper = highUpper * LOW_DIGITS_BASE;
    const carried = Math.floor(upper / TWO_16);
    const sum = (high - highUpper * TWO_16) * LOW_DIGITS_BASE + low + (upper - carried * TWO_16) * TWO_16;
    const overflow = Math.floor(sum / TWO_32);
    let word0 = sum - overflow * TWO_32;
    let word1 = carried + overflow;
    if (word1 >= (signed ? TWO_32 / 2 : TWO_32)) {
      const minimum = negative && word1 === TWO_32 / 2 && word0 === 0;
      if (!minimum) return GIVE_UP;
    }
    if (negative) {
      word1 = word0 === 0 ? TWO_32 - word1 : TWO_32 - 1 - word1;
      word0 = TWO_32 - word0;
    }
    // A half of exactly 2^32 is stored as 0.
    out[2 * index] = word0;
    out[2 * index + 1] = word1;
    return end;
  };
  return { data: bytesOf(out), read };
}

function floatReader(out: Float32Array | Float64Array, rough: boolean): { data: Uint8Array; read: ReadElement } {
  // The text as a string, made for the first number that needs Number().
  let text: string | undefined;
  const read: ReadElement = (bytes, start, index) => {
    let position = start;
    const negative = bytes[position] === 0x2d;
    if (negative) position++;
    const first = position;
    let digit = (bytes[position] as number) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return GIVE_UP;
    let mantissa = digit;
    digit = (bytes[++position] as number) - 0x30;
    while (digit >= 0 && digit <= 9) {
      mantissa = mantissa * 10 + digit;
      digit = (bytes[++position] as number) - 0x30;
    }
    if (bytes[first] === 0x30 && position > first + 1) return GIVE_UP;
    let digits = position - first;
    let exponent = 0;
    if (digit === -2) {
      const point = position;
      digit = (bytes[++position] as number) - 0x30;
      while (digit >= 0 && digit <= 9) {
        mantissa = mantissa * 10 + digit;
        digit = (bytes[++position] as number) - 0x30;
      }
      exponent = point + 1 - position;
      if (exponent === 0) return GIVE_UP;
      digits -= exponent;
    }
    if (digit === 0x35 || digit === 0x15) {
      const end = exponentEnd(bytes, position);
      if (end === GIVE_UP) return GIVE_UP;
      exponent += exponentValue(bytes, position, end);
      position = end;
    }
    let value = 0;
    const power = exponent < 0 ? -exponent : exponent;
    if (mantissa < EXACT_END && power <= EXACT_POWER_MAX) {
      const scale = POWERS_OF_TEN[power] as number;
      value = exponent < 0 ? mantissa / scale : mantissa * scale;
    } else {
      value =
        rough && digits <= ROUGH_DIGITS_MAX && power <= ROUGH_POWER_MAX ? roughly(mantissa, exponent) : Number.NaN;
      if (Number.isNaN(value)) {
        text ??= Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
        value = Number(text.slice(first, position));
        if (value === Number.POSITIVE_INFINITY) return GIVE_UP;
      }
    }
    out[index] = negative ? -value : value;
    return position;
  };
  return { data: bytesOf(out), read };
}

/** An FP32 value from inexact parts; NaN where they lie too near to the border between two values. */
function roughly(mantissa: number, exponent: number): number {
  const value =
    exponent < 0 ? mantissa / (POWERS_OF_TEN[-exponent] as number) : mantissa * (POWERS_OF_TEN[exponent] as number);
  const below = Math.fround(value * ROUGH_BELOW);
  return below === Math.fround(value * ROUGH_ABOVE) ? below : Number.NaN;
}

/** End of the exponent whose letter is at `position`. */
function exponentEnd(bytes: Uint8Array, position: number): number {
  const sign = bytes[position + 1];
  let end = sign === 0x2d || sign === 0x2b ? position + 2 : position + 1;
  const first = end;
  let byte = bytes[end] as number;
  while (byte >= 0x30 && byte <= 0x39) byte = bytes[++end] as number;
  return end === first ? GIVE_UP : end;
}

function exponentValue(bytes: Uint8Array, position: number, end: number): number {
  const negative = bytes[position + 1] === 0x2d;
  const sign = negative || bytes[position + 1] === 0x2b ? 1 : 0;
  let value = 0;
  for (let place = position + 1 + sign; place < end; place++) value = value * 10 + (bytes[place] as number) - 0x30;
  return negative ? -value : value;
}
