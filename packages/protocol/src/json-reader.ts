/**
 * A JSON reader over bytes for the v2 request: lossless (64-bit integers, `1` and `1.0` told
 * apart), bounded in depth, with rapidjson's error texts and byte positions (triton_json.h parses
 * with kParseNanAndInfFlag, so NaN, Inf and Infinity are numbers here).
 * It hands out members and elements one by one; the caller decides what becomes a value.
 */
import { INTEGER_RANGES } from './element-array.ts';
import { type JsonCursor, peek, sliceText, syntaxError } from './json-cursor.ts';
import { readString, skipString } from './json-string.ts';

/** A number that was written as no integer, or one beyond 64 bits. */
export interface JsonDouble {
  readonly double: number;
}

/** What an array and an object read as where a scalar is wanted. */
export const JSON_ARRAY = Symbol('array');
export const JSON_OBJECT = Symbol('object');

/** number: an integer that is safe (-0 keeps its sign); bigint: an integer of 64 bits beyond that. */
export type JsonScalar =
  | string
  | boolean
  | null
  | number
  | bigint
  | JsonDouble
  | typeof JSON_ARRAY
  | typeof JSON_OBJECT;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const [INT64_MIN] = INTEGER_RANGES.INT64;
const [, UINT64_MAX] = INTEGER_RANGES.UINT64;
/** Integer literals up to this length are safe integers without a check. */
const SAFE_DIGITS = 15;
/** Longer integer literals are past 64 bits; BigInt() would take quadratic time over them. */
const INT64_DIGITS = 20;

/** Checks that only white space follows. */
export function expectEnd(cursor: JsonCursor): void {
  if (peek(cursor) !== -1) {
    throw syntaxError('The document root must not be followed by other values.', cursor.position);
  }
}

/** Enters the object at the cursor and reads its first key; undefined for `{}`. */
export function firstKey(cursor: JsonCursor): string | undefined {
  cursor.position++;
  if (peek(cursor) === CLOSE_OBJECT) {
    cursor.position++;
    return undefined;
  }
  return readKey(cursor);
}

/** After a member's value: reads the next key; undefined once the object is closed. */
export function nextKey(cursor: JsonCursor): string | undefined {
  const byte = peek(cursor);
  if (byte === COMMA) {
    cursor.position++;
    peek(cursor);
    return readKey(cursor);
  }
  if (byte !== CLOSE_OBJECT) throw syntaxError('Missing a comma or } after an object member.', cursor.position);
  cursor.position++;
  return undefined;
}

function readKey(cursor: JsonCursor): string {
  if (cursor.bytes[cursor.position] !== QUOTE) {
    throw syntaxError('Missing a name for object member.', cursor.position);
  }
  const key = readString(cursor);
  if (peek(cursor) !== COLON) throw syntaxError('Missing a colon after a name of object member.', cursor.position);
  cursor.position++;
  return key;
}

/** Enters the array at the cursor; false for `[]`. */
export function firstElement(cursor: JsonCursor): boolean {
  cursor.position++;
  if (peek(cursor) !== CLOSE_ARRAY) return true;
  cursor.position++;
  return false;
}

/** After an element: true if another follows, false once the array is closed. */
export function nextElement(cursor: JsonCursor): boolean {
  const byte = peek(cursor);
  if (byte !== COMMA && byte !== CLOSE_ARRAY) {
    throw syntaxError('Missing a comma or ] after an array element.', cursor.position);
  }
  cursor.position++;
  return byte === COMMA;
}

/** Reads a scalar; arrays and objects are checked and skipped, and read as their mark. */
export function readScalar(cursor: JsonCursor, depthMax: number): JsonScalar {
  switch (peek(cursor)) {
    case QUOTE:
      return readString(cursor);
    case OPEN_ARRAY:
      skipValue(cursor, depthMax);
      return JSON_ARRAY;
    case OPEN_OBJECT:
      skipValue(cursor, depthMax);
      return JSON_OBJECT;
    case 0x74:
      skipWord(cursor, 'true');
      return true;
    case 0x66:
      skipWord(cursor, 'false');
      return false;
    case 0x6e:
      skipWord(cursor, 'null');
      return null;
    default:
      return readNumber(cursor);
  }
}

/** Checks one value of any kind and moves past it, at most `depthMax` arrays and objects deep. */
export function skipValue(cursor: JsonCursor, depthMax: number, depth = 0): void {
  switch (peek(cursor)) {
    case QUOTE:
      skipString(cursor);
      return;
    case OPEN_ARRAY:
      checkDepth(cursor, depthMax, depth);
      for (let more = firstElement(cursor); more; more = nextElement(cursor)) skipValue(cursor, depthMax, depth + 1);
      return;
    case OPEN_OBJECT:
      checkDepth(cursor, depthMax, depth);
      for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
        skipValue(cursor, depthMax, depth + 1);
      }
      return;
    case 0x74:
      skipWord(cursor, 'true');
      return;
    case 0x66:
      skipWord(cursor, 'false');
      return;
    case 0x6e:
      skipWord(cursor, 'null');
      return;
    default:
      skipNumber(cursor);
  }
}

function checkDepth(cursor: JsonCursor, depthMax: number, depth: number): void {
  if (depth < depthMax) return;
  throw syntaxError(`JSON nesting depth exceeds maximum allowed limit (${depthMax})`, cursor.position);
}

function skipWord(cursor: JsonCursor, word: string): void {
  for (let index = 0; index < word.length; index++) {
    if (cursor.bytes[cursor.position + index] !== word.charCodeAt(index)) invalidValue(cursor);
  }
  cursor.position += word.length;
}

function invalidValue(cursor: JsonCursor): never {
  if (peek({ ...cursor, position: 0 }) === -1) {
    throw syntaxError('The document is empty.', cursor.position);
  }
  throw syntaxError('Invalid value.', cursor.position);
}

/** Moves past a number; true if it is written as an integer. */
function skipNumber(cursor: JsonCursor): boolean {
  const { bytes } = cursor;
  let position = cursor.position;
  if (bytes[position] === MINUS) position++;
  const first = bytes[position] ?? -1;
  if (first < ZERO || first > NINE) {
    const word = first === 0x4e ? 'NaN' : infinityWord(cursor, position);
    if (word === undefined) invalidValue(cursor);
    cursor.position = position;
    skipWord(cursor, word);
    return false;
  }
  position++;
  if (first !== ZERO) position = skipDigits(bytes, position);
  let integer = true;
  if (bytes[position] === POINT) {
    const end = skipDigits(bytes, position + 1);
    if (end === position + 1) throw syntaxError('Miss fraction part in number.', end);
    position = end;
    integer = false;
  }
  if (((bytes[position] ?? 0) | 0x20) === 0x65) {
    const sign = bytes[position + 1];
    const start = sign === MINUS || sign === 0x2b ? position + 2 : position + 1;
    const end = skipDigits(bytes, start);
    if (end === start) throw syntaxError('Miss exponent in number.', end);
    position = end;
    integer = false;
  }
  cursor.position = position;
  return integer;
}

function skipDigits(bytes: Uint8Array, start: number): number {
  let position = start;
  let byte = bytes[position] as number;
  while (byte >= ZERO && byte <= NINE) byte = bytes[++position] as number;
  return position;
}

function infinityWord(cursor: JsonCursor, position: number): string | undefined {
  if (cursor.bytes[position] !== 0x49) return undefined;
  return cursor.bytes[position + 3] === 0x69 ? 'Infinity' : 'Inf';
}

function readNumber(cursor: JsonCursor): number | bigint | JsonDouble {
  const start = cursor.position;
  const integer = skipNumber(cursor);
  const literal = sliceText(cursor, start, cursor.position);
  if (integer) {
    if (literal.length <= SAFE_DIGITS) return Number(literal);
    if (literal.length <= INT64_DIGITS) {
      const value = BigInt(literal);
      if (Number.isSafeInteger(Number(value))) return Number(value);
      if (value >= INT64_MIN && value <= UINT64_MAX) return value;
    }
  }
  const double = Number(literal);
  // Number() reads neither Inf nor a signed NaN; a literal of digits that is not finite is too big.
  if (Number.isFinite(double)) return { double };
  const last = literal.charCodeAt(literal.length - 1);
  if (last >= ZERO && last <= NINE) throw syntaxError('Number too big to be stored in double.', start);
  if (literal.endsWith('NaN')) return { double: Number.NaN };
  return { double: literal.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY };
}
