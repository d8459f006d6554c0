/**
 * The complete reader of an input's `"data"` (ReadDataFromJsonHelper in http_server.cc): arrays
 * nested in any way are flattened, every kind of JSON value is told apart, and each mistake has its
 * text. Integers outside their datatype's range are refused, which Triton wraps.
 */
import { ELEMENT_LENGTH_BYTES } from './bytes-elements.ts';
import type { Datatype } from './datatype.ts';
import {
  bytesOf,
  ELEMENT_ARRAYS,
  type ElementArray,
  INTEGER_RANGES,
  type IntegerDatatype,
  isIntegerDatatype,
} from './element-array.ts';
import { NereidError } from './error.ts';
import { type JsonCursor, peek } from './json-cursor.ts';
import { firstElement, JSON_OBJECT, type JsonScalar, nextElement, readScalar } from './json-reader.ts';
import { copyString } from './json-string.ts';

/** Where the elements belong, for errors. */
export interface ElementsPlace {
  readonly name: string;
  /** e.g. `inputs[0].data` */
  readonly field: string;
}

/** Text between an array's brackets, already checked as JSON and in depth. */
export interface JsonSpan {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;
/** The text is checked in depth before. */
const CHECKED_DEPTH = Number.POSITIVE_INFINITY;
/** A text of n elements is longer than this many bytes times n: each has a character and a comma. */
const ELEMENT_TEXT_BYTES = 2;
/** A BYTES buffer may be this much longer than what it holds before it is cut. */
const SPARE_FACTOR = 1.25;

/** The `count` elements of `span` in binary form. Throws INVALID_ARG in Triton's words. */
export function readElements(span: JsonSpan, datatype: Datatype, count: number, place: ElementsPlace): Uint8Array {
  // Before memory is taken: a text that cannot hold so many elements does not.
  if (count * ELEMENT_TEXT_BYTES > span.end - span.start) throw countMismatch(place);
  const cursor: JsonCursor = { bytes: span.bytes.subarray(0, span.end), text: '', position: span.start };
  if (datatype === 'BYTES') return readStrings(cursor, span.end - span.start, count, place);
  const values = new ELEMENT_ARRAYS[datatype](count);
  const store = storeFor(datatype, values, place);
  let index = 0;
  walk(cursor, () => {
    if (index === count) throw countMismatch(place);
    store(index++, readScalar(cursor, CHECKED_DEPTH));
  });
  if (index !== count) throw countMismatch(place);
  return bytesOf(values);
}

/** Calls `element` at each value that is no array; the text is checked, so its depth is bounded. */
function walk(cursor: JsonCursor, element: () => void): void {
  for (let more = firstElement(cursor); more; more = nextElement(cursor)) {
    if (peek(cursor) === OPEN_ARRAY) walk(cursor, element);
    else element();
  }
}

/** One pass: each element's bytes behind its length. The text is as long as the result but for the lengths. */
function readStrings(cursor: JsonCursor, textBytes: number, count: number, place: ElementsPlace): Uint8Array {
  const out = Buffer.from(new ArrayBuffer(textBytes + ELEMENT_LENGTH_BYTES * count));
  let index = 0;
  let end = 0;
  walk(cursor, () => {
    if (index === count) throw countMismatch(place);
    if (cursor.bytes[cursor.position] !== QUOTE) throw notText(readScalar(cursor, CHECKED_DEPTH), place);
    const start = end + ELEMENT_LENGTH_BYTES;
    const next = copyString(cursor, out, start);
    out.writeUInt32LE(next - start, end);
    end = next;
    index++;
  });
  if (index !== count) throw countMismatch(place);
  const tight = out.byteLength <= end * SPARE_FACTOR;
  return tight ? new Uint8Array(out.buffer, 0, end) : new Uint8Array(out.buffer.slice(0, end));
}

function notText(value: JsonScalar, place: ElementsPlace): NereidError {
  const hint = value === JSON_OBJECT ? '; objects with base64 are not part of the protocol, use the binary form' : '';
  return new NereidError(
    'INVALID_ARG',
    `Unable to parse JSON bytes array: attempt to access JSON non-string as string${hint}`,
    { field: place.field },
  );
}

function storeFor(
  datatype: Exclude<Datatype, 'BYTES'>,
  values: ElementArray,
  place: ElementsPlace,
): (index: number, value: JsonScalar) => void {
  if (datatype === 'BOOL') {
    return (index, value) => {
      if (typeof value !== 'boolean') throw wrongKind('non-boolean as boolean', place);
      values[index] = value ? 1 : 0;
    };
  }
  if (isIntegerDatatype(datatype)) return integerStore(datatype, values, place);
  return (index, value) => {
    const double = doubleOf(value);
    if (double === undefined) throw wrongKind('non-number as double', place);
    values[index] = double;
  };
}

function doubleOf(value: JsonScalar): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  return typeof value === 'object' && value !== null ? value.double : undefined;
}

function integerStore(
  datatype: IntegerDatatype,
  values: ElementArray,
  place: ElementsPlace,
): (index: number, value: JsonScalar) => void {
  const [min, max] = INTEGER_RANGES[datatype];
  const kind = min === 0n ? 'non-unsigned-integer as unsigned-integer' : 'non-signed-integer as signed-integer';
  const long = values instanceof BigInt64Array || values instanceof BigUint64Array;
  return (index, value) => {
    if (typeof value !== 'number' && typeof value !== 'bigint') throw wrongKind(kind, place);
    if (value < min || value > max) {
      throw new NereidError(
        'INVALID_ARG',
        `Unable to parse 'data': ${value} is out of range for ${datatype} (${min} to ${max}) in input '${place.name}'`,
        { field: place.field },
      );
    }
    values[index] = long ? BigInt(value) : Number(value);
  };
}

function wrongKind(words: string, place: ElementsPlace): NereidError {
  return new NereidError('INVALID_ARG', `Unable to parse 'data': attempt to access JSON ${words}`, {
    field: place.field,
  });
}

/** The error for more or fewer elements than the shape says. */
export function countMismatch(place: ElementsPlace): NereidError {
  return new NereidError('INVALID_ARG', "Unable to parse 'data': Shape does not match true shape of 'data' field", {
    field: place.field,
  });
}
