import { PREFIX_BYTES } from './message-reader.ts';
import type { MessageBytes } from './transport.ts';

/** Up to so many bytes, copying a message's parts into one write is cheaper than several writes. */
const JOINED_BYTES_MAX = 65_536;

export function messageLength(message: MessageBytes): number {
  if (message instanceof Uint8Array) return message.byteLength;
  let length = 0;
  for (const part of message) length += part.byteLength;
  return length;
}

/** The message behind its prefix, in as few pieces as are worth their copy. */
export function framed(message: MessageBytes, compressed: boolean): readonly Uint8Array[] {
  const parts = message instanceof Uint8Array ? [message] : message;
  const length = messageLength(parts);
  const [first = new Uint8Array(0), ...others] = parts;
  const joined = length <= JOINED_BYTES_MAX ? length : first.byteLength <= JOINED_BYTES_MAX ? first.byteLength : 0;
  const head = Buffer.allocUnsafe(PREFIX_BYTES + joined);
  head[0] = compressed ? 1 : 0;
  head.writeUInt32BE(length, 1);
  if (joined === 0) return length === 0 ? [head] : [head, ...parts];
  if (length > joined) {
    head.set(first, PREFIX_BYTES);
    return [head, ...others];
  }
  let at = PREFIX_BYTES;
  for (const part of parts) {
    head.set(part, at);
    at += part.byteLength;
  }
  return [head];
}

/** The message in one piece, as a compressor takes it. */
export function whole(message: MessageBytes): Uint8Array {
  if (message instanceof Uint8Array) return message;
  const [only] = message;
  return message.length === 1 && only !== undefined ? only : Buffer.concat(message);
}
