/**
 * What passes between a worker and an instance's process: orders one way and reports the other, as
 * instance-messages.ts has them, through a pipe. Each is a frame of 32-bit words, little-endian
 *
 *   magic, bytes of the object, number of buffers, bytes of each buffer
 *
 * and then those bytes. Buffers travel as they are; whatever else there is of a message is the object,
 * in V8's serialization. Both ends are of one build, so the magic only finds what somebody else wrote.
 */
import { deserialize, serialize } from 'node:v8';
import { NereidError } from '@nereid/protocol';

const MAGIC = 0x4e50_0001;
const WORD_BYTES = 4;
const HEAD_WORDS = 3;
/** Outputs of one result, and the frame before them. */
const BUFFERS_MAX = 65_537;

/** A message: what is no buffer of it (undefined for none), and its buffers. */
export interface PipeMessage {
  readonly object: unknown;
  readonly buffers: readonly ArrayBuffer[];
}

/** The parts to write, in order; of the first buffer only so many bytes. Throws for what cannot be sent. */
export function pipeFrame({ object, buffers }: PipeMessage, firstBytes?: number): readonly Uint8Array[] {
  const body = object === undefined ? new Uint8Array() : serialize(object);
  const parts = buffers.map((buffer, index) => new Uint8Array(buffer, 0, index === 0 ? firstBytes : undefined));
  const head = Buffer.allocUnsafe((HEAD_WORDS + parts.length) * WORD_BYTES);
  let at = head.writeUInt32LE(MAGIC);
  at = head.writeUInt32LE(body.byteLength, at);
  at = head.writeUInt32LE(parts.length, at);
  for (const part of parts) at = head.writeUInt32LE(part.byteLength, at);
  return [head, body, ...parts].filter(({ byteLength }) => byteLength > 0);
}

export interface PipeReader {
  /** The next bytes. Throws INTERNAL for bytes that are no frame, after which nothing can be read. */
  read(chunk: Uint8Array): void;
}

/** Puts frames together again; `allocate` gives a buffer of at least so many bytes. */
export function createPipeReader(
  allocate: (bytes: number) => ArrayBuffer,
  take: (message: PipeMessage) => void,
): PipeReader {
  let head = new Uint8Array(HEAD_WORDS * WORD_BYTES);
  let target = head;
  let filled = 0;
  /** Undefined while the head is read. */
  let sizes: number[] | undefined;
  let object: Uint8Array<ArrayBuffer> | undefined;
  let buffers: ArrayBuffer[] = [];

  const begin = (next: Uint8Array<ArrayBuffer>) => {
    target = next;
    filled = 0;
  };

  /** What follows a full target: more of the head, the object, the buffers, or the end of the frame. */
  const advance = () => {
    if (sizes === undefined) {
      const words = new DataView(head.buffer);
      const count = words.getUint32(2 * WORD_BYTES, true);
      if (words.getUint32(0, true) !== MAGIC || count > BUFFERS_MAX) {
        throw new NereidError('INTERNAL', 'what came through its pipe is no frame');
      }
      const whole = (HEAD_WORDS + count) * WORD_BYTES;
      if (head.byteLength < whole) {
        const more = new Uint8Array(whole);
        more.set(head);
        head = more;
        target = more;
        return;
      }
      sizes = Array.from({ length: count }, (_, i) => words.getUint32((HEAD_WORDS + i) * WORD_BYTES, true));
      const bytes = words.getUint32(WORD_BYTES, true);
      object = bytes === 0 ? undefined : new Uint8Array(bytes);
      begin(object ?? new Uint8Array());
      return;
    }
    const size = sizes[buffers.length];
    if (size !== undefined) {
      const buffer = allocate(size);
      buffers.push(buffer);
      begin(new Uint8Array(buffer, 0, size));
      return;
    }
    const message = { object: object === undefined ? undefined : deserialize(object), buffers };
    sizes = undefined;
    buffers = [];
    head = new Uint8Array(HEAD_WORDS * WORD_BYTES);
    begin(head);
    take(message);
  };

  return {
    read(chunk) {
      let at = 0;
      while (at < chunk.byteLength) {
        const count = Math.min(chunk.byteLength - at, target.byteLength - filled);
        target.set(chunk.subarray(at, at + count), filled);
        filled += count;
        at += count;
        while (filled === target.byteLength) advance();
      }
    },
  };
}
