/** The part of a frame after its header: the bytes of tensors, handed out in order. */
import { NereidError } from './error.ts';

/** Tensor bytes begin at multiples of this in a frame, so that typed arrays can lie on them. */
const TENSOR_ALIGNMENT_BYTES = 8;

export interface FrameBody {
  readonly frame: Uint8Array;
  /** End of what has been handed out. */
  offset: number;
}

export function frameError(why: string): NereidError {
  return new NereidError('INTERNAL', `broken message frame: ${why}`);
}

/** The next place in a frame where tensor bytes may begin. */
export function alignTensor(offset: number): number {
  return Math.ceil(offset / TENSOR_ALIGNMENT_BYTES) * TENSOR_ALIGNMENT_BYTES;
}

/** A view on the next bytes; throws INTERNAL where there are not so many. */
export function takeBytes(size: number, body: FrameBody): Uint8Array {
  const { frame } = body;
  const start = alignTensor(body.offset);
  if (size > frame.byteLength - start) throw frameError('it ends within a tensor');
  body.offset = start + size;
  return new Uint8Array(frame.buffer, frame.byteOffset + start, size);
}
