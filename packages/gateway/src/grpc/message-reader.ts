import { type BodyBytes, createBodyBytes } from '../body-bytes.ts';

/** One byte that tells whether the message is compressed, four with its length. */
export const PREFIX_BYTES = 5;
const EMPTY: Buffer = Buffer.alloc(0);

export interface MessageReaderOptions {
  /** A longer message ends the reading. */
  readonly bytes_max: number;
  /** Called for each whole message, in order; an uncompressed one may be a view on a chunk. */
  readonly message: (bytes: Uint8Array, compressed: boolean) => void;
  /** Called once; nothing is read any more. */
  readonly tooLarge: (bytes: number) => unknown;
}

/** Takes the bytes of a call as they come, apart into messages (gRPC over HTTP/2, Length-Prefixed-Message). */
export interface MessageReader {
  add(chunk: Buffer): void;
  /** Bytes of a message that is not whole yet have come. */
  readonly partial: boolean;
}

/** A length by itself takes no memory: a large message is gathered as it comes (body-bytes.ts). */
export function createMessageReader({ bytes_max, message, tooLarge }: MessageReaderOptions): MessageReader {
  /** Of a prefix that is not whole yet. */
  let head: Buffer = EMPTY;
  let body: BodyBytes | undefined;
  let compressed = false;
  let left = 0;
  let over = false;

  /** What of `chunk` belongs to the message that has begun; returns the rest. */
  const goOn = (gathered: BodyBytes, chunk: Buffer) => {
    const part = chunk.length > left ? chunk.subarray(0, left) : chunk;
    gathered.add(part);
    left -= part.length;
    if (left > 0) return EMPTY;
    body = undefined;
    message(gathered.end(), compressed);
    return chunk.subarray(part.length);
  };

  /** A message that begins with `chunk`; returns what follows it. */
  const begin = (chunk: Buffer) => {
    if (chunk.length < PREFIX_BYTES) {
      head = chunk;
      return EMPTY;
    }
    const length = chunk.readUInt32BE(1);
    const end = PREFIX_BYTES + length;
    compressed = chunk[0] === 1;
    if (length > bytes_max) {
      over = true;
      tooLarge(length);
      return EMPTY;
    }
    if (chunk.length >= end) {
      message(chunk.subarray(PREFIX_BYTES, end), compressed);
      return chunk.subarray(end);
    }
    body = createBodyBytes(length);
    left = length;
    return chunk.subarray(PREFIX_BYTES);
  };

  return {
    add(chunk) {
      let rest: Buffer = chunk;
      if (head.length > 0) {
        rest = Buffer.concat([head, chunk]);
        head = EMPTY;
      }
      while (rest.length > 0 && !over) rest = body === undefined ? begin(rest) : goOn(body, rest);
    },
    get partial() {
      return head.length > 0 || body !== undefined;
    },
  };
}
