/**
 * JSON text built in one growing buffer. Short pieces gather in a string; element lists are printed
 * straight into the buffer, a block at a time.
 */
import type { Datatype } from './datatype.ts';
import { ELEMENT_ARRAYS, type ElementArray } from './element-array.ts';

export interface JsonWriter {
  buffer: Buffer;
  length: number;
  /** Text that is not in the buffer yet. */
  pending: string;
}

/** Elements printed between two checks for room. */
const BLOCK_ELEMENTS = 1_024;
/** The longest element with its comma: a double of 17 digits with sign and exponent. */
const ELEMENT_TEXT_BYTES_MAX = 26;
/** Integers up to here are printed digit by digit from a double. */
const DIGITS_END = 1e15;
/** JavaScript writes doubles from here with an exponent, so that they need no `.0`. */
const EXPONENT_START = 1e21;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const TRUE_TEXT = Buffer.from('true,');
const FALSE_TEXT = Buffer.from('false,');

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

/** A double as Triton writes it: integral ones with `.0`, and the tokens NaN, Infinity, -Infinity. */
export function doubleText(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < EXPONENT_START) return Object.is(value, -0) ? '-0.0' : `${value}.0`;
  return String(value);
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

/** Prints `values[start…end)` each with a comma at `at`; returns the end of the text. */
type Print = (values: ElementArray, start: number, end: number, out: Buffer, at: number) => number;

function printerFor(datatype: Datatype): Print {
  switch (datatype) {
    case 'BOOL':
      return printBooleans;
    case 'INT64':
    case 'UINT64':
      return printLongs;
    case 'FP32':
    case 'FP64':
      return printDoubles;
    default:
      return printIntegers;
  }
}

const printBooleans: Print = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    const word = values[index] === 0 ? FALSE_TEXT : TRUE_TEXT;
    for (let place = 0; place < word.length; place++) out[position++] = word[place] as number;
  }
  return position;
};

const printIntegers: Print = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    position = printInteger(values[index] as number, out, position);
    out[position++] = COMMA;
  }
  return position;
};

const printLongs: Print = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    const value = values[index] as bigint;
    const double = Number(value);
    if (double < DIGITS_END && double > -DIGITS_END) position = printInteger(double, out, position);
    else position += out.write(String(value), position, 'latin1');
    out[position++] = COMMA;
  }
  return position;
};

const printDoubles: Print = (values, start, end, out, at) => {
  let position = at;
  let text = '';
  for (let index = start; index < end; index++) {
    const value = values[index] as number;
    if (Number.isInteger(value) && value < DIGITS_END && value > -DIGITS_END && !Object.is(value, -0)) {
      if (text !== '') {
        position += out.write(text, position, 'latin1');
        text = '';
      }
      position = printInteger(value, out, position);
      out[position++] = 0x2e;
      out[position++] = ZERO;
      out[position++] = COMMA;
    } else {
      text += `${doubleText(value)},`;
    }
  }
  return text === '' ? position : position + out.write(text, position, 'latin1');
};

/** Prints an integer of at most 15 digits. */
function printInteger(value: number, out: Buffer, at: number): number {
  let position = at;
  let rest = value;
  if (rest < 0) {
    out[position++] = MINUS;
    rest = -rest;
  }
  let digits = 1;
  for (let bound = 10; bound <= rest; bound *= 10) digits++;
  const end = position + digits;
  let place = end;
  while (rest > 0x7fffffff) {
    const next = Math.floor(rest / 10);
    out[--place] = ZERO + (rest - next * 10);
    rest = next;
  }
  let small = rest | 0;
  while (place > position) {
    const next = (small / 10) | 0;
    out[--place] = ZERO + (small - next * 10);
    small = next;
  }
  return end;
}
