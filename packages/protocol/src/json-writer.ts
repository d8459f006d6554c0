/**
 * JSON text built in one growing buffer. Short pieces gather in a string; element lists are printed
 * straight into the buffer, a block at a time.
 */
import type { Datatype } from './datatype.ts';
import { ELEMENT_ARRAYS } from './element-array.ts';
import { ELEMENT_TEXT_BYTES_MAX, printerFor } from './json-numbers.ts';

export interface JsonWriter {
  buffer: Buffer;
  length: number;
  /** Text that is not in the buffer yet. */
  pending: string;
}

/** Elements printed between two checks for room. */
const BLOCK_ELEMENTS = 1_024;

export function jsonWriter(sizeHint: number): JsonWriter {
  return { buffer: Buffer.allocUnsafe(sizeHint), length: 0, pending: '' };
}

/** Moves the pending text to the buffer and makes room for `bytes` more. */
export function flush(writer: JsonWriter, bytes: number): void {
  const { pending } = writer;
  // One UTF-16 unit takes at most three bytes of UTF-8.
  const needed = writer.length + pending.length * 3 + bytes;
  if (needed > writer.buffer.byteLength) {
    const larger = Buffer.allocUnsafe(Math.max(needed, writer.buffer.byteLength * 2));
    writer.buffer.copy(larger, 0, 0, writer.length);
    writer.buffer = larger;
  }
  if (pending !== '') {
    writer.length += writer.buffer.write(pending, writer.length, 'utf8');
    writer.pending = '';
  }
}

/** The whole text. */
export function finish(writer: JsonWriter): Buffer {
  flush(writer, 0);
  return writer.buffer.subarray(0, writer.length);
}

/** Writes a tensor's elements, comma between them; `data` must be whole elements. */
export function writeElements(writer: JsonWriter, datatype: Exclude<Datatype, 'BYTES'>, data: Uint8Array): void {
  const Elements = ELEMENT_ARRAYS[datatype];
  const size = Elements.BYTES_PER_ELEMENT;
  const bytes = data.byteOffset % size === 0 ? data : data.slice();
  const values = new Elements(bytes.buffer, bytes.byteOffset, bytes.byteLength / size);
  const print = printerFor(datatype);
  for (let start = 0; start < values.length; start += BLOCK_ELEMENTS) {
    const end = Math.min(start + BLOCK_ELEMENTS, values.length);
    flush(writer, (end - start) * ELEMENT_TEXT_BYTES_MAX);
    writer.length = print(values, start, end, writer.buffer, writer.length);
  }
  // The last element's comma.
  if (values.length > 0) writer.length--;
}
