import { type JsonCursor, sliceText, syntaxError } from './json-cursor.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
const NINE = 0x39;

/** Reads the string at the cursor; bytes that are no UTF-8 become U+FFFD. */
export function readString(cursor: JsonCursor): string {
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
    return sliceText(cursor, start, position);
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
export function skipString(cursor: JsonCursor): void {
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
