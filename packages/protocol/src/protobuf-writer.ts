/** Writes protobuf's wire format into a buffer whose size was worked out before. */

const VARINT_BITS = 7;
/** Below it, a varint is written with 32-bit operations. */
const SMALL_MAX = 0x7fff_ffff;

/** A place in a message that is being written. */
export interface ProtobufWriter {
  readonly out: Buffer;
  at: number;
}

/** Bytes of a varint from 0 to 2^53. */
export function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++;
  return bytes;
}

/** Bytes of a varint from 0 to 2^64 - 1. */
export function integerBytes(value: bigint): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80n; rest >>= 7n) bytes++;
  return bytes;
}

/** Bytes of a delimited field with a tag of one byte. */
export function delimitedBytes(length: number): number {
  return 1 + varintBytes(length) + length;
}

/** Bytes of a text field, which an empty text does not have. */
export function textBytes(text: string): number {
  return text === '' ? 0 : delimitedBytes(Buffer.byteLength(text));
}

export function writeByte(writer: ProtobufWriter, byte: number): void {
  writer.out[writer.at++] = byte;
}

/** From 0 to 2^53. */
export function writeVarint(writer: ProtobufWriter, value: number): void {
  const { out } = writer;
  let { at } = writer;
  let rest = value;
  for (; rest > SMALL_MAX; rest = Math.floor(rest / 0x80)) out[at++] = (rest % 0x80) | 0x80;
  for (; rest >= 0x80; rest >>>= VARINT_BITS) out[at++] = (rest & 0x7f) | 0x80;
  out[at++] = rest;
  writer.at = at;
}

export function writeInteger(writer: ProtobufWriter, value: bigint): void {
  let rest = BigInt.asUintN(64, value);
  for (; rest >= 0x80n; rest >>= 7n) writeByte(writer, Number(rest & 0x7fn) | 0x80);
  writeByte(writer, Number(rest));
}

export function writeDouble(writer: ProtobufWriter, value: number): void {
  writer.at = writer.out.writeDoubleLE(value, writer.at);
}

/** The tag, of one byte, and the length of a delimited field. */
export function openDelimited(writer: ProtobufWriter, tag: number, length: number): void {
  writeByte(writer, tag);
  writeVarint(writer, length);
}

/** Nothing where the text is empty. */
export function writeText(writer: ProtobufWriter, tag: number, text: string): void {
  if (text === '') return;
  openDelimited(writer, tag, Buffer.byteLength(text));
  writer.at += writer.out.write(text, writer.at, 'utf8');
}
