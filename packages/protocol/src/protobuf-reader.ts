/**
 * Protobuf's wire format, as much of it as the hand-written decoders need. Refuses with INVALID_ARG
 * what cannot be parsed; nothing that a message claims takes memory by itself.
 */
import { isUtf8 } from 'node:buffer';
import { NereidError } from './error.ts';
import { createTextCache } from './text-cache.ts';

export const VARINT = 0;
export const FIXED64 = 1;
export const DELIMITED = 2;
const START_GROUP = 3;
const END_GROUP = 4;
export const FIXED32 = 5;

export const FIXED32_BYTES = 4;
export const FIXED64_BYTES = 8;
const VARINT_BYTES_MAX = 10;
/** How deep groups may nest, which no message of ours has. */
const GROUP_DEPTH_MAX = 100;
/** Longer texts are looked at by native code. */
const SCANNED_TEXT_BYTES_MAX = 64;
const TWO_POW_32 = 4_294_967_296;

/** A place in a message. */
export interface ProtobufReader {
  readonly bytes: Buffer;
  at: number;
  /** Of the message, or of the one within it that is being read. */
  end: number;
  /** The last varint's halves, as signed 32-bit integers. */
  low: number;
  high: number;
}

/** Names that come again and again. */
const texts = createTextCache();

export function protobufReader(message: Uint8Array): ProtobufReader {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  return { bytes, at: 0, end: bytes.length, low: 0, high: 0 };
}

export function malformed(reader: ProtobufReader, what: string): NereidError {
  return new NereidError('INVALID_ARG', `the request message cannot be parsed: ${what} at byte ${reader.at}`, {
    field: 'message',
  });
}

/** Reads a varint into `low` and `high`. */
export function readVarint(reader: ProtobufReader): void {
  const { bytes, end } = reader;
  const first = reader.at < end ? (bytes[reader.at] ?? 0) : 0x80;
  if (first < 0x80) {
    reader.at++;
    reader.low = first;
    reader.high = 0;
    return;
  }
  readLongVarint(reader);
}

function readLongVarint(reader: ProtobufReader): void {
  const { bytes, at: start } = reader;
  const end = Math.min(reader.end, start + VARINT_BYTES_MAX);
  let low = 0;
  let high = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    const shift = 7 * (at - start);
    const bits = byte & 0x7f;
    // The fifth byte has bits of both halves; JavaScript's shifts drop what does not fit.
    if (shift < 32) low |= bits << shift;
    if (shift > 28) high |= bits << (shift - 32);
    else if (shift === 28) high |= bits >> 4;
    if (byte < 0x80) {
      reader.at = at + 1;
      reader.low = low;
      reader.high = high;
      return;
    }
  }
  const short = end === reader.end && end < start + VARINT_BYTES_MAX;
  throw malformed(reader, short ? 'it ends within a number' : 'a number has more than 10 bytes');
}

/** A field's number and wire type, `number << 3 | type`. */
export function readTag(reader: ProtobufReader): number {
  readVarint(reader);
  const tag = reader.low >>> 0;
  if (reader.high !== 0 || tag < 8) throw malformed(reader, 'a field has no valid number');
  return tag;
}

/** The last varint as a signed 64-bit number; rounded beyond 2^53. */
export function signedNumber({ low, high }: ProtobufReader): number {
  return high * TWO_POW_32 + (low >>> 0);
}

/** The same, exact. */
export function signedInteger({ low, high }: ProtobufReader): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}

/** The last varint as an unsigned 64-bit integer. */
export function unsignedInteger({ low, high }: ProtobufReader): bigint {
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}

/** Passes the length of a delimited field and returns where the field ends. */
export function openSpan(reader: ProtobufReader): number {
  readVarint(reader);
  const end = reader.at + (reader.low >>> 0);
  if (reader.high !== 0 || end > reader.end) throw malformed(reader, 'a field goes beyond the end');
  return end;
}

/** Passes so many bytes and returns where they begin. */
export function take(reader: ProtobufReader, count: number): number {
  const { at } = reader;
  if (count > reader.end - at) throw malformed(reader, 'it ends within a number');
  reader.at = at + count;
  return at;
}

/** A delimited field as a view. */
export function readBytes(reader: ProtobufReader): Uint8Array {
  const end = openSpan(reader);
  const { bytes, at } = reader;
  reader.at = end;
  return new Uint8Array(bytes.buffer, bytes.byteOffset + at, end - at);
}

/** A delimited field as text, which is UTF-8 in proto3. */
export function readText(reader: ProtobufReader): string {
  const end = openSpan(reader);
  const { bytes, at } = reader;
  if (!isAsciiText(bytes, at, end) && !isUtf8(bytes.subarray(at, end))) throw malformed(reader, 'a text is no UTF-8');
  reader.at = end;
  return at === end ? '' : texts.text(bytes, at, end);
}

function isAsciiText(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > SCANNED_TEXT_BYTES_MAX) return false;
  for (let at = start; at < end; at++) if ((bytes[at] ?? 0) >= 0x80) return false;
  return true;
}

/** Passes the value of a field that nobody knows, or whose wire type is not its own. */
export function skipField(reader: ProtobufReader, tag: number, depth = 0): void {
  switch (tag & 7) {
    case VARINT:
      readVarint(reader);
      return;
    case FIXED64:
      take(reader, FIXED64_BYTES);
      return;
    case DELIMITED:
      reader.at = openSpan(reader);
      return;
    case START_GROUP:
      skipGroup(reader, tag, depth + 1);
      return;
    case FIXED32:
      take(reader, FIXED32_BYTES);
      return;
    default:
      throw malformed(reader, 'a field has no valid wire type');
  }
}

function skipGroup(reader: ProtobufReader, start: number, depth: number): void {
  if (depth > GROUP_DEPTH_MAX) throw malformed(reader, `groups nest deeper than ${GROUP_DEPTH_MAX}`);
  const endTag = start - START_GROUP + END_GROUP;
  while (reader.at < reader.end) {
    const tag = readTag(reader);
    if (tag === endTag) return;
    skipField(reader, tag, depth);
  }
  throw malformed(reader, 'a group has no end');
}
