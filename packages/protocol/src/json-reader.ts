/**
 * A JSON reader over bytes for the v2 request: lossless (64-bit integers, `1` and `1.0` told
 * apart), bounded in depth, with rapidjson's error texts and byte positions (triton_json.h parses
 * with kParseNanAndInfFlag, so NaN, Inf and Infinity are numbers here).
 * It hands out members and elements one by one; the caller decides what becomes a value.
 */
import { NereidError } from './error.ts';

/** A position in a document. `bytes` holds the document alone: reads past it give undefined. */
export interface JsonCursor {
  readonly bytes: Uint8Array;
  /** The document as Latin-1, index = byte offset; '' where the document is too long for it to pay. */
  readonly text: string;
  position: number;
}

/** A number that was written as no integer, or one beyond 64 bits. */
export interface JsonDouble {
  readonly double: number;
}

/** What an array and an object read as where a scalar is wanted. */
export const JSON_ARRAY = Symbol('array');
export const JSON_OBJECT = Symbol('object');

/** number: an integer that is safe; bigint: an integer of 64 bits beyond that. */
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
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Longer documents are not copied to a string; their few strings are cut from the bytes. */
const TEXT_BYTES_MAX = 65_536;
const INT64_MIN = -(1n << 63n);
const UINT64_MAX = (1n << 64n) - 1n;
/** Integer literals up to this length are safe integers without a check. */
const SAFE_DIGITS = 15;
/** Longer integer literals are past 64 bits; BigInt() would take quadratic time over them. */
const INT64_DIGITS = 20;

export function jsonCursor(document: Uint8Array): JsonCursor {
  const text = document.byteLength <= TEXT_BYTES_MAX ? latin1(document, 0, document.byteLength) : '';
  return { bytes: document, text, position: 0 };
}

/** A syntax error as Triton words it: `failed to parse the request JSON buffer: <why> at <byte>`. */
export function syntaxError(why: string, position: number): NereidError {
  return new NereidError('INVALID_ARG', `failed to parse the request JSON buffer: ${why} at ${position}`);
}

function latin1(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1', start, end);
}

function slice(cursor: JsonCursor, start: number, end: number): string {
  return cursor.text === '' ? latin1(cursor.bytes, start, end) : cursor.text.slice(start, end);
}

/** Moves to the next byte that is no white space and returns it; -1 at the end. */
export function peek(cursor: JsonCursor): number {
  const { bytes } = cursor;
  let position = cursor.position;
  let byte = bytes[position];
  while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++position];
  cursor.position = position;
  return byte ?? -1;
}

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
  if (cursor.position >= cursor.bytes.byteLength && cursor.bytes.every((byte) => byte <= 0x20)) {
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
  const literal = slice(cursor, start, cursor.position);
  if (integer) {
    // Adding 0 turns -0 into 0: an integer has no sign of its own there.
    if (literal.length <= SAFE_DIGITS) return Number(literal) + 0;
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

/** Reads the string at the cursor; bytes that are no UTF-8 become U+FFFD. */
function readString(cursor: JsonCursor): string {
  const { bytes } = cursor;
  const start = cursor.position + 1;
  let position = start;
  let seen = 0;
  let byte = bytes[position] as number;
  while (byte !== QUOTE && byte !== BACKSLASH && byte >= 0x20) {
    seen |= byte;
    byte = bytes[++position] as number;
  }
  if (byte === QUOTE && seen < 0x80) {
    cursor.position = position + 1;
    return slice(cursor, start, position);
  }
  skipString(cursor);
  const copied = Buffer.allocUnsafe(cursor.position - start);
  const end = cursor.position;
  cursor.position = start - 1;
  const length = copyString(cursor, copied, 0);
  cursor.position = end;
  return copied.toString('utf8', 0, length);
}

/** Checks the string at the cursor and moves past it. */
function skipString(cursor: JsonCursor): void {
  const { bytes } = cursor;
  let position = cursor.position + 1;
  for (;;) {
    const byte = bytes[position] as number;
    if (byte === QUOTE) break;
    if (byte === BACKSLASH) {
      position = escapeEnd(bytes, position);
    } else {
      if (!(byte >= 0x20)) unprintable(byte, position);
      position++;
    }
  }
  cursor.position = position + 1;
}

function unprintable(byte: number | undefined, position: number): never {
  if (byte === undefined || byte === 0) throw syntaxError('Missing a closing quotation mark in string.', position);
  throw syntaxError('Invalid encoding in string.', position);
}

/** End of the escape sequence at `position`, a surrogate pair counting as one. */
function escapeEnd(bytes: Uint8Array, position: number): number {
  if (bytes[position + 1] !== 0x75) {
    if (simpleEscape(bytes[position + 1]) === -1) throw syntaxError('Invalid escape character in string.', position);
    return position + 2;
  }
  const code = hexCode(bytes, position);
  if (code < 0xd800 || code > 0xdfff) return position + 6;
  const pair = code <= 0xdbff && bytes[position + 6] === BACKSLASH && bytes[position + 7] === 0x75;
  if (pair && (hexCode(bytes, position + 6) & 0xfc00) === 0xdc00) return position + 12;
  throw syntaxError('The surrogate pair in string is invalid.', position);
}

function simpleEscape(letter: number | undefined): number {
  switch (letter) {
    case QUOTE:
    case BACKSLASH:
    case 0x2f:
      return letter;
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x6e:
      return 0x0a;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    default:
      return -1;
  }
}

/** The four hexadecimal digits of the `\u` escape at `position`. */
function hexCode(bytes: Uint8Array, position: number): number {
  let code = 0;
  for (let index = position + 2; index < position + 6; index++) {
    const byte = bytes[index] ?? 0;
    const letter = (byte | 0x20) - 0x61;
    const digit = byte >= ZERO && byte <= NINE ? byte - ZERO : letter >= 0 && letter < 6 ? letter + 10 : -1;
    if (digit < 0) throw syntaxError('Incorrect hex digit after \\u escape in string.', position);
    code = code * 16 + digit;
  }
  return code;
}

/**
 * Copies the checked string at the cursor to `out` as UTF-8 and moves past it; returns the end in
 * `out`, which must have room for the string's own length. Bytes that need no escape are copied as
 * they are, valid UTF-8 or not, as Triton does.
 */
export function copyString(cursor: JsonCursor, out: Uint8Array, start: number): number {
  const { bytes } = cursor;
  let position = cursor.position + 1;
  let end = start;
  for (;;) {
    const byte = bytes[position] as number;
    if (byte === QUOTE) break;
    if (byte === BACKSLASH) {
      const next = escapeEnd(bytes, position);
      end = copyEscape(bytes, position, out, end);
      position = next;
    } else {
      out[end++] = byte;
      position++;
    }
  }
  cursor.position = position + 1;
  return end;
}

function copyEscape(bytes: Uint8Array, position: number, out: Uint8Array, start: number): number {
  if (bytes[position + 1] !== 0x75) {
    out[start] = simpleEscape(bytes[position + 1]);
    return start + 1;
  }
  let code = hexCode(bytes, position);
  if (code >= 0xd800 && code <= 0xdfff) {
    code = 0x10000 + ((code & 0x3ff) << 10) + (hexCode(bytes, position + 6) & 0x3ff);
  }
  let end = start;
  if (code < 0x80) {
    out[end++] = code;
  } else if (code < 0x800) {
    out[end++] = 0xc0 | (code >> 6);
    out[end++] = 0x80 | (code & 0x3f);
  } else {
    if (code < 0x10000) {
      out[end++] = 0xe0 | (code >> 12);
    } else {
      out[end++] = 0xf0 | (code >> 18);
      out[end++] = 0x80 | ((code >> 12) & 0x3f);
    }
    out[end++] = 0x80 | ((code >> 6) & 0x3f);
    out[end++] = 0x80 | (code & 0x3f);
  }
  return end;
}
