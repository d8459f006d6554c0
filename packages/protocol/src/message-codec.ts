/**
 * Messages as binary frames: 2 magic bytes, version, kind, uint32 header
 * length (little-endian), a msgpack header, then the bytes of each tensor in the header's order, each
 * at a multiple of 8 from the frame's start.
 */
import { Packr, Unpackr } from 'msgpackr';
import { NereidError } from './error.ts';
import { type FrameBody, frameError } from './frame-reader.ts';
import type { Message, MessageKind } from './message.ts';
import { alignTensor, type Detach, MESSAGE_READERS, packMessage } from './message-header.ts';
import { FRAME_HEADER_BYTES_MAX } from './protocol-limits.ts';
import type { Tensor } from './tensor.ts';

/** "Nr" */
const MAGIC = [0x4e, 0x72] as const;
const VERSION_OFFSET = 2;
const KIND_OFFSET = 3;
const LENGTH_OFFSET = 4;
const PREFIX_BYTES = 8;

/** Written into every frame. Frames of this version and the one before are read. Version 1 knew no blobs. */
export const FRAME_VERSION = 2;
const FRAME_VERSION_OLDEST = 1;

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
};
const KINDS = new Map(Object.entries(KIND_NUMBERS).map(([kind, number]) => [number, kind as MessageKind]));

const PACKING = { useRecords: false, int64AsType: 'bigint', encodeUndefinedAsNil: false } as const;
const packr = new Packr(PACKING);
const unpackr = new Unpackr(PACKING);

/**
 * The frame of a message, in a buffer of its own. Throws INVALID_ARG where the header would be longer
 * than FRAME_HEADER_BYTES_MAX or holds an integer of more than 64 bits. `detach` is asked of each
 * tensor with data whether it goes into the frame; what it throws is thrown on.
 */
export function encodeMessage(message: Message, detach?: Detach): Uint8Array {
  const tensors: Tensor[] = [];
  const header = packHeader(packMessage(message, { tensors, detach }));
  let size = PREFIX_BYTES + header.byteLength;
  for (const { data } of tensors) size = alignTensor(size) + data.byteLength;
  const frame = Buffer.allocUnsafeSlow(size);
  frame[0] = MAGIC[0];
  frame[1] = MAGIC[1];
  frame[VERSION_OFFSET] = FRAME_VERSION;
  frame[KIND_OFFSET] = KIND_NUMBERS[message.kind];
  frame.writeUInt32LE(header.byteLength, LENGTH_OFFSET);
  frame.set(header, PREFIX_BYTES);
  let end = PREFIX_BYTES + header.byteLength;
  for (const { data } of tensors) {
    const start = alignTensor(end);
    frame.fill(0, end, start);
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
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  if (frame.byteLength < PREFIX_BYTES) throw frameError(`${frame.byteLength} bytes are too few`);
  if (frame[0] !== MAGIC[0] || frame[1] !== MAGIC[1]) throw frameError('it does not begin with the magic bytes');
  const version = view.getUint8(VERSION_OFFSET);
  if (version > FRAME_VERSION || version < FRAME_VERSION_OLDEST) {
    throw new NereidError(
      'UNSUPPORTED',
      `message frame of version ${version}: this process reads ${FRAME_VERSION_OLDEST} to ${FRAME_VERSION}; ` +
        'update the older process',
    );
  }
  const kind = KINDS.get(view.getUint8(KIND_OFFSET));
  if (kind === undefined) throw frameError(`unknown kind ${view.getUint8(KIND_OFFSET)}`);
  const length = view.getUint32(LENGTH_OFFSET, true);
  if (length > FRAME_HEADER_BYTES_MAX) throw frameError(`a header of ${length} bytes is too long`);
  if (length > frame.byteLength - PREFIX_BYTES) throw frameError('it ends within its header');
  const end = PREFIX_BYTES + length;
  const header = unpackHeader(new Uint8Array(frame.buffer, frame.byteOffset + PREFIX_BYTES, length));
  const body: FrameBody = { frame, offset: end };
  const message = MESSAGE_READERS[kind](header, body);
  if (body.offset !== frame.byteLength) throw frameError('bytes are left over');
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
