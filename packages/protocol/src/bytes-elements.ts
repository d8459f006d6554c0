import { NereidError } from './error.ts';

/** Each element of a BYTES tensor follows its length, a little-endian uint32. */
export const ELEMENT_LENGTH_BYTES = 4;
const TEXT_BYTES_PER_UNIT_MAX = 3;

/**
 * The elements of a BYTES tensor as views, in order.
 * Throws INVALID_ARG where the lengths do not add up; `name` is the tensor's, for the text.
 */
export function bytesElements(data: Uint8Array, name = ''): Uint8Array[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const elements: Uint8Array[] = [];
  let offset = 0;
  while (offset < data.byteLength) {
    const start = offset + ELEMENT_LENGTH_BYTES;
    const length = start <= data.byteLength ? view.getUint32(offset, true) : 0;
    const available = Math.max(0, data.byteLength - start);
    if (start > data.byteLength || length > available) {
      throw new NereidError(
        'INVALID_ARG',
        `element ${elements.length} of BYTES tensor '${name}' needs ${ELEMENT_LENGTH_BYTES + length} bytes ` +
          `but only ${data.byteLength - offset} are left`,
      );
    }
    elements.push(new Uint8Array(data.buffer, data.byteOffset + start, length));
    offset = start + length;
  }
  return elements;
}

/** The binary form of BYTES elements, text as UTF-8, in a buffer of its own. */
export function encodeBytesElements(elements: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  let size = 0;
  let exact = true;
  for (const element of elements) {
    const text = typeof element === 'string';
    if (text) exact = false;
    size += ELEMENT_LENGTH_BYTES + (text ? element.length * TEXT_BYTES_PER_UNIT_MAX : element.byteLength);
  }
  // Text is written once into room for its longest form, which is then cut.
  const out = exact ? Buffer.from(new ArrayBuffer(size)) : Buffer.allocUnsafe(size);
  let end = 0;
  for (const element of elements) {
    const start = end + ELEMENT_LENGTH_BYTES;
    if (typeof element === 'string') {
      end = start + out.write(element, start, 'utf8');
    } else {
      out.set(element, start);
      end = start + element.byteLength;
    }
    out.writeUInt32LE(end - start, start - ELEMENT_LENGTH_BYTES);
  }
  if (exact) return new Uint8Array(out.buffer as ArrayBuffer, out.byteOffset, end);
  const data = new Uint8Array(end);
  data.set(out.subarray(0, end));
  return data;
}
