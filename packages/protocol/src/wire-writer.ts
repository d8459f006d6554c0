/**
 * Writes the headers of the hot messages, field after field without names (docs/decisions/0012). Its reading side is
 * wire-reader.ts.
 *
 * A number takes 1 byte from 0 to 252, and else a mark with 0 (minus one), 4 (uint32) or 8 bytes (double). A text is
 * its length in bytes as a number, then UTF-8. All is little-endian.
 */
import { NereidError } from './error.ts';
import { FRAME_HEADER_BYTES_MAX } from './protocol-limits.ts';

/** Numbers below it are their own byte. */
export const NUMBER_MARKS_FROM = 0xfd;
export const MINUS_ONE = 0xfd;
export const UINT32 = 0xfe;
const DOUBLE = 0xff;

/** What a bigint begins with. */
export const LONG_ZERO = 0;
export const LONG_UNSIGNED = 1;
export const LONG_SIGNED = 2;

const NUMBER_BYTES_MAX = 9;
const LONG_BYTES_MAX = 9;
const BLOCK_LENGTH_BYTES = 4;
/** Above it a native call is quicker than a loop. */
const LOOP_CHARACTERS_MAX = 48;
const ASCII_MAX = 0x7f;
const UINT32_MAX = 0xffff_ffff;
const UINT64_MAX = 0xffff_ffff_ffff_ffffn;
const INT64_MIN = -0x8000_0000_0000_0000n;

/** Bytes that are written from the front; replaced by more where they do not suffice. */
export interface WireWriter {
  bytes: Buffer;
  offset: number;
}

/** Sees that so many more bytes have room. Throws INVALID_ARG past FRAME_HEADER_BYTES_MAX. */
function reserve(writer: WireWriter, count: number): void {
  const needed = writer.offset + count;
  if (needed <= writer.bytes.length) return;
  if (needed > FRAME_HEADER_BYTES_MAX) {
    throw new NereidError('INVALID_ARG', `a message header is longer than ${FRAME_HEADER_BYTES_MAX} bytes`);
  }
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * writer.bytes.length));
  writer.bytes.copy(larger, 0, 0, writer.offset);
  writer.bytes = larger;
}

export function writeByte(writer: WireWriter, byte: number): void {
  reserve(writer, 1);
  writer.bytes[writer.offset++] = byte;
}

export function writeFlag(writer: WireWriter, flag: boolean): void {
  writeByte(writer, flag ? 1 : 0);
}

export function writeNumber(writer: WireWriter, value: number): void {
  reserve(writer, NUMBER_BYTES_MAX);
  const { bytes, offset } = writer;
  if (value >= 0 && value <= UINT32_MAX && Number.isInteger(value) && !Object.is(value, -0)) {
    if (value < NUMBER_MARKS_FROM) {
      bytes[offset] = value;
      writer.offset = offset + 1;
    } else {
      bytes[offset] = UINT32;
      writer.offset = bytes.writeUInt32LE(value, offset + 1);
    }
  } else if (value === -1) {
    bytes[offset] = MINUS_ONE;
    writer.offset = offset + 1;
  } else {
    bytes[offset] = DOUBLE;
    writer.offset = bytes.writeDoubleLE(value, offset + 1);
  }
}

/** Throws INVALID_ARG for an integer of more than 64 bits. */
export function writeLong(writer: WireWriter, value: bigint): void {
  reserve(writer, LONG_BYTES_MAX);
  const { bytes, offset } = writer;
  if (value === 0n) {
    bytes[offset] = LONG_ZERO;
    writer.offset = offset + 1;
  } else if (value > 0n && value <= UINT64_MAX) {
    bytes[offset] = LONG_UNSIGNED;
    writer.offset = bytes.writeBigUInt64LE(value, offset + 1);
  } else if (value < 0n && value >= INT64_MIN) {
    bytes[offset] = LONG_SIGNED;
    writer.offset = bytes.writeBigInt64LE(value, offset + 1);
  } else {
    throw new NereidError('INVALID_ARG', 'a message cannot be packed: an integer has more than 64 bits');
  }
}

export function writeText(writer: WireWriter, text: string): void {
  if (text.length > LOOP_CHARACTERS_MAX || !writeAscii(writer, text)) writeUtf8(writer, text);
}

/** False, with nothing written, where the text has other characters. */
function writeAscii(writer: WireWriter, text: string): boolean {
  const { length } = text;
  reserve(writer, length + 1);
  const { bytes } = writer;
  let { offset } = writer;
  bytes[offset++] = length;
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index);
    if (code > ASCII_MAX) return false;
    bytes[offset++] = code;
  }
  writer.offset = offset;
  return true;
}

function writeUtf8(writer: WireWriter, text: string): void {
  const length = Buffer.byteLength(text);
  writeNumber(writer, length);
  reserve(writer, length);
  writer.offset += writer.bytes.write(text, writer.offset, length, 'utf8');
}

export function writeNullable<T>(
  writer: WireWriter,
  value: T | null | undefined,
  write: (writer: WireWriter, value: T) => void,
): void {
  if (value === null || value === undefined) {
    writeByte(writer, 0);
    return;
  }
  writeByte(writer, 1);
  write(writer, value);
}

/** Begins what is read as a whole, whatever a later version adds at its end. Returns what `closeBlock` wants. */
export function openBlock(writer: WireWriter): number {
  reserve(writer, BLOCK_LENGTH_BYTES);
  writer.offset += BLOCK_LENGTH_BYTES;
  return writer.offset;
}

export function closeBlock(writer: WireWriter, start: number): void {
  writer.bytes.writeUInt32LE(writer.offset - start, start - BLOCK_LENGTH_BYTES);
}
