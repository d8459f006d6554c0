/** Reading the protobuf wire format by offsets, so that what is not wanted is never read. */
import { readSync } from 'node:fs';
import { NereidError } from '@nereid/protocol';

/** Bytes that are read at once: most of a graph's small messages lie within one window. */
const WINDOW_BYTES = 16_384;
const VARINT_BYTES_MAX = 10;

/** A file or buffer of which any part can be read. */
export interface RandomAccess {
  /** For errors. */
  readonly name: string;
  readonly byteLength: number;
  /** A view that is good until the next call. `offset + length` is within `byteLength`. */
  read(offset: number, length: number): Uint8Array;
}

export function bufferAccess(name: string, bytes: Uint8Array): RandomAccess {
  return { name, byteLength: bytes.byteLength, read: (offset, length) => bytes.subarray(offset, offset + length) };
}

/** Reads an open file through one small window. The caller closes it. */
export function fileAccess(name: string, fd: number, byteLength: number): RandomAccess {
  let window = new Uint8Array(0);
  let start = 0;
  return {
    name,
    byteLength,
    read(offset, length) {
      if (offset < start || offset + length > start + window.byteLength) {
        const size = Math.min(Math.max(length, WINDOW_BYTES), byteLength - offset);
        const next = new Uint8Array(size);
        let filled = 0;
        while (filled < size) {
          const count = readSync(fd, next, filled, size - filled, offset + filled);
          if (count === 0) throw new NereidError('INVALID_ARG', `'${name}' became shorter while it was read`);
          filled += count;
        }
        window = next;
        start = offset;
      }
      return window.subarray(offset - start, offset - start + length);
    },
  };
}

/** One field: where its value lies, and the value itself for a varint. */
export interface SkimField {
  readonly number: number;
  readonly wireType: 'varint' | 'bytes' | 'fixed';
  /** For a varint its value; above 2^63 it is negative, above 2^53 inexact. */
  readonly value: number;
  /** For bytes the range in the file. */
  readonly start: number;
  readonly end: number;
}

/**
 * Calls `visit` for each field of the message in [start, end), whose contents are skipped unless
 * `visit` reads them. A visit that returns false ends it. Throws INVALID_ARG naming the file where
 * the bytes are no message.
 */
export function skimMessage(
  source: RandomAccess,
  start: number,
  end: number,
  visit: (field: SkimField) => boolean | undefined,
): void {
  let at = start;
  const varint = (): number => {
    const bytes = source.read(at, Math.min(VARINT_BYTES_MAX, end - at));
    let value = 0;
    for (let i = 0; i < bytes.byteLength; i++) {
      const byte = bytes[i] ?? 0;
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) {
        at += i + 1;
        return value;
      }
    }
    return corrupt(source, at, 'a number does not end');
  };
  while (at < end) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    const wire = tag % 8;
    if (number === 0 || number > 0x1fffffff) corrupt(source, at, `field number ${number}`);
    const field = { number, wireType: 'varint' as SkimField['wireType'], value: 0, start: at, end: at };
    if (wire === 0) {
      field.value = varint();
    } else if (wire === 2) {
      const length = varint();
      if (length > end - at) corrupt(source, at, `${length} bytes are announced where ${end - at} are left`);
      field.wireType = 'bytes';
      field.start = at;
      at += length;
    } else if (wire === 1 || wire === 5) {
      const length = wire === 1 ? 8 : 4;
      if (length > end - at) corrupt(source, at, `${length} bytes are announced where ${end - at} are left`);
      field.wireType = 'fixed';
      at += length;
    } else {
      corrupt(source, at, `wire type ${wire}`);
    }
    field.end = at;
    if (visit(field) === false) return;
  }
}

function corrupt(source: RandomAccess, at: number, why: string): never {
  const text = `'${source.name}' is corrupt or cut short, or no ONNX model: ${why} at byte ${at} of ${source.byteLength}`;
  throw new NereidError('INVALID_ARG', text);
}
