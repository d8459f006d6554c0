/**
 * Messages as binary frames: 2 magic bytes, version, kind, uint32 header length (little-endian), the header, then the
 * bytes of each tensor in the header's order, each at a multiple of 8 from the frame's start. Headers of the hot kinds
 * are as wire-messages.ts says, those of the others are MessagePack.
 */
import { Packr, Unpackr } from 'msgpackr';
import { NereidError } from './error.ts';
import { alignTensor, type FrameBody, frameError } from './frame-body.ts';
import type { Message, MessageKind } from './message.ts';
import { MESSAGE_READERS } from './message-header.ts';
import { FRAME_HEADER_BYTES_MAX } from './protocol-limits.ts';
import type { Tensor } from './tensor.ts';
import { isWireKind, isWireMessage, readMessage, writeMessage } from './wire-messages.ts';
import type { Detach, MessageWriter } from './wire-tensors.ts';

/** "Nr" */
const MAGIC = [0x4e, 0x72] as const;
const VERSION_OFFSET = 2;
const KIND_OFFSET = 3;
const LENGTH_OFFSET = 4;
const PREFIX_BYTES = 8;

/** Written into every frame. Frames of this version and the one before are read: in version 2 every header is MessagePack. */
export const FRAME_VERSION = 3;
const FRAME_VERSION_OLDEST = 2;
const WIRE_VERSION = 3;

/** A kind keeps its number for ever. */
const KIND_NUMBERS: Readonly<Record<MessageKind, number>> = {
  infer: 1,
  cancel: 2,
  stale: 3,
  moved: 4,
  execute: 5,
  response: 6,
  done: 7,
  refused: 8,
  describe: 9,
  described: 10,
  free: 11,
  control: 12,
  running: 13,
  missing: 14,
  count: 15,
  counted: 16,
  list: 17,
  evict: 18,
  listed: 19,
  echo: 20,
  cached: 21,
  kept: 22,
  put: 23,
  explain: 24,
  explained: 25,
  cancel_job: 26,
  change: 27,
  changed: 28,
  place: 30,
  placed: 31,
};
const KINDS = new Map(Object.entries(KIND_NUMBERS).map(([kind, number]) => [number, kind as MessageKind]));

const PACKING = { useRecords: false, int64AsType: 'bigint', encodeUndefinedAsNil: false } as const;
const packr = new Packr(PACKING);
const unpackr = new Unpackr(PACKING);

/** Headers are written here first; a longer one gets a buffer of its own. */
const SCRATCH_BYTES = 16_384;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/**
 * The frame of a message. Throws INVALID_ARG where the header would be longer than FRAME_HEADER_BYTES_MAX or holds an
 * integer of more than 64 bits. `detach` is asked of each tensor with data whether it goes into the frame; what it
 * throws is thrown on.
 */
export function encodeMessage(message: Message, detach?: Detach): Uint8Array {
  const writer: MessageWriter = { bytes: scratch, offset: PREFIX_BYTES, tensors: [], detach };
  if (isWireMessage(message)) {
    writeMessage(writer, message);
  } else {
    const packed = packHeader(message);
    writer.bytes = Buffer.concat([Buffer.alloc(PREFIX_BYTES), packed]);
    writer.offset = writer.bytes.byteLength;
  }
  const { bytes, offset, tensors } = writer;
  bytes[0] = MAGIC[0];
  bytes[1] = MAGIC[1];
  bytes[VERSION_OFFSET] = FRAME_VERSION;
  bytes[KIND_OFFSET] = KIND_NUMBERS[message.kind];
  bytes.writeUInt32LE(offset - PREFIX_BYTES, LENGTH_OFFSET);
  return frameOf(bytes, offset, tensors);
}

function frameOf(header: Buffer, headerEnd: number, tensors: readonly Tensor[]): Uint8Array {
  let size = headerEnd;
  for (const { data } of tensors) size = alignTensor(size) + data.byteLength;
  const frame = Buffer.allocUnsafe(size);
  header.copy(frame, 0, 0, headerEnd);
  let end = headerEnd;
  for (const { data } of tensors) {
    const start = alignTensor(end);
    for (let index = end; index < start; index++) frame[index] = 0;
    frame.set(data, start);
    end = start + data.byteLength;
  }
  return frame;
}

/**
 * The message in a frame; its tensors are views on the frame. Throws UNSUPPORTED for a frame of
 * another version, INTERNAL for anything that is no whole frame.
 */
export function decodeMessage(frame: Uint8Array): Message {
  const bytes = Buffer.isBuffer(frame) ? frame : Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  if (bytes.byteLength < PREFIX_BYTES) throw frameError(`${bytes.byteLength} bytes are too few`);
  if (bytes[0] !== MAGIC[0] || bytes[1] !== MAGIC[1]) throw frameError('it does not begin with the magic bytes');
  const version = bytes[VERSION_OFFSET] ?? 0;
  if (version > FRAME_VERSION || version < FRAME_VERSION_OLDEST) {
    throw new NereidError(
      'UNSUPPORTED',
      `message frame of version ${version}: this process reads ${FRAME_VERSION_OLDEST} to ${FRAME_VERSION}; ` +
        'update the older process',
    );
  }
  const kind = KINDS.get(bytes[KIND_OFFSET] ?? 0);
  if (kind === undefined) throw frameError(`unknown kind ${bytes[KIND_OFFSET]}`);
  const length = bytes.readUInt32LE(LENGTH_OFFSET);
  if (length > FRAME_HEADER_BYTES_MAX) throw frameError(`a header of ${length} bytes is too long`);
  if (length > bytes.byteLength - PREFIX_BYTES) throw frameError('it ends within its header');
  const end = PREFIX_BYTES + length;
  const body: FrameBody = { frame: bytes, offset: end };
  const message =
    version >= WIRE_VERSION && isWireKind(kind)
      ? readMessage({ bytes, offset: PREFIX_BYTES, end, body }, kind)
      : MESSAGE_READERS[kind](unpackHeader(bytes.subarray(PREFIX_BYTES, end)), body);
  if (body.offset !== bytes.byteLength) throw frameError('bytes are left over');
  return message;
}

function packHeader(header: object): Buffer {
  let packed: Buffer;
  try {
    packed = packr.pack(header);
  } catch (cause) {
    throw new NereidError(
      'INVALID_ARG',
      `a message cannot be packed: ${cause instanceof Error ? cause.message : cause}`,
      {
        cause,
      },
    );
  }
  if (packed.byteLength > FRAME_HEADER_BYTES_MAX) {
    throw new NereidError(
      'INVALID_ARG',
      `a message header of ${packed.byteLength} bytes is longer than ${FRAME_HEADER_BYTES_MAX}`,
    );
  }
  return packed;
}

/** msgpackr checks each length against the bytes left before it takes memory. */
function unpackHeader(header: Uint8Array): unknown {
  try {
    return unpackr.unpack(header);
  } catch (cause) {
    throw new NereidError('INTERNAL', 'broken message frame: its header is no msgpack', { cause });
  }
}
