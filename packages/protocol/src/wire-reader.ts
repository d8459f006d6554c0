/** Reads what wire-writer.ts wrote, and refuses with INTERNAL what does not fit; nothing that a frame claims takes memory by itself. */
import { frameError } from './frame-body.ts';
import { createTextCache } from './text-cache.ts';
import { LONG_SIGNED, LONG_UNSIGNED, LONG_ZERO, MINUS_ONE, NUMBER_MARKS_FROM, UINT32 } from './wire-writer.ts';

const UINT32_BYTES = 4;
const WIDE_BYTES = 8;

/** A place in a frame's header. */
export interface WireReader {
  readonly bytes: Buffer;
  offset: number;
  /** Of the header, or of the block within it that is being read. */
  end: number;
}

/** Names that come again and again. */
const names = createTextCache();

/** Takes so many bytes and returns where they begin. */
function take(reader: WireReader, count: number): number {
  const { offset } = reader;
  if (count > reader.end - offset) throw frameError('its header ends early');
  reader.offset = offset + count;
  return offset;
}

export function readByte(reader: WireReader): number {
  if (reader.offset >= reader.end) throw frameError('its header ends early');
  return reader.bytes[reader.offset++] ?? 0;
}

export function readFlag(reader: WireReader): boolean {
  const byte = readByte(reader);
  if (byte > 1) throw frameError('boolean expected');
  return byte === 1;
}

/** Any double. */
export function readNumber(reader: WireReader): number {
  const byte = readByte(reader);
  if (byte < NUMBER_MARKS_FROM) return byte;
  switch (byte) {
    case MINUS_ONE:
      return -1;
    case UINT32:
      return reader.bytes.readUInt32LE(take(reader, UINT32_BYTES));
    // DOUBLE, the one mark left.
    default:
      return reader.bytes.readDoubleLE(take(reader, WIDE_BYTES));
  }
}

export function readInteger(reader: WireReader): number {
  const value = readNumber(reader);
  if (!Number.isSafeInteger(value)) throw frameError('integer expected');
  return value;
}

export function readCount(reader: WireReader): number {
  const value = readInteger(reader);
  if (value < 0) throw frameError('count expected');
  return value;
}

export function readLong(reader: WireReader): bigint {
  switch (readByte(reader)) {
    case LONG_ZERO:
      return 0n;
    case LONG_UNSIGNED:
      return reader.bytes.readBigUInt64LE(take(reader, WIDE_BYTES));
    case LONG_SIGNED:
      return reader.bytes.readBigInt64LE(take(reader, WIDE_BYTES));
    default:
      throw frameError('64-bit integer expected');
  }
}

/** A text that most likely comes only once. */
export function readText(reader: WireReader): string {
  const length = readCount(reader);
  if (length === 0) return '';
  const start = take(reader, length);
  return reader.bytes.toString('utf8', start, start + length);
}

/** A text that most likely came before. */
export function readName(reader: WireReader): string {
  const length = readCount(reader);
  if (length === 0) return '';
  const start = take(reader, length);
  return names.text(reader.bytes, start, start + length);
}

export function readNullable<T>(reader: WireReader, read: (reader: WireReader) => T): T | null {
  return readFlag(reader) ? read(reader) : null;
}

export function readList<T, R extends WireReader>(reader: R, read: (reader: R) => T): readonly T[] {
  const length = readCount(reader);
  const items: T[] = [];
  // Each item takes a byte or more, so a false length ends with the header.
  for (let index = 0; index < length; index++) items.push(read(reader));
  return items;
}

/** Begins a block and returns what `leaveBlock` wants. */
export function enterBlock(reader: WireReader): number {
  const length = reader.bytes.readUInt32LE(take(reader, UINT32_BYTES));
  const outer = reader.end;
  if (length > outer - reader.offset) throw frameError('its header ends within a block');
  reader.end = reader.offset + length;
  return outer;
}

/** What a newer version added to the block is left aside. */
export function leaveBlock(reader: WireReader, outer: number): void {
  reader.offset = reader.end;
  reader.end = outer;
}
