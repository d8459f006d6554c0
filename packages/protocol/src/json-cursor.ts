import { NereidError } from './error.ts';

/** A position in a document. `bytes` holds the document alone: reads past it give undefined. */
export interface JsonCursor {
  readonly bytes: Uint8Array;
  /** The document as Latin-1, index = byte offset; '' where the document is too long for it to pay. */
  readonly text: string;
  position: number;
}

/** Longer documents are not copied to a string; their few strings are cut from the bytes. */
const TEXT_BYTES_MAX = 65_536;

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

/** The bytes from `start` to `end` as Latin-1. */
export function sliceText(cursor: JsonCursor, start: number, end: number): string {
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
