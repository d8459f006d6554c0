/**
 * Joined outputs on their way back from an instance's thread or process. Words of 64-bit floats:
 *
 *   sequence, waitNs, inputNs, inferNs, outputNs, outputs, packed (1) or apart (0),
 *   per output: index, byte offset or number of its buffer, byte length, shape
 *   (frame-shapes.ts)
 *
 * Small outputs follow in the same ArrayBuffer; large ones travel as buffers of their own beside
 * the frame, so that they are not copied. The frame of a large batch goes back behind them.
 */
import type { JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { type BatchTiming, NereidError } from '@nereid/protocol';
import { readShape, shapeWords, writeShape } from './frame-shapes.ts';
import { ALIGNMENT_BYTES } from './join-split.ts';

/** Up to so many bytes over all outputs a copy is cheaper than buffers of their own. */
export const PACKED_BYTES_MAX = 65_536;

const HEAD_WORDS = 7;
const OUTPUT_WORDS = 3;
const WORD_BYTES = 8;
const OUTPUT_NS_WORD = 4;

export interface OpenedResult {
  readonly sequence: number;
  readonly timing: BatchTiming;
  /** Views on the frame or on the other buffers. */
  readonly outputs: readonly JoinedTensor[];
  /** The batch's own frame, where it came back to be used again. */
  readonly returned: ArrayBuffer | undefined;
}

/** A result ready to be sent; all its buffers are to be transferred. */
export interface PackedResult {
  readonly frame: ArrayBuffer;
  readonly others: readonly ArrayBuffer[];
}

/**
 * Makes a result frame. With `giveAway` an output that covers
 * its whole ArrayBuffer is not copied but loses it. Throws INTERNAL for an output that the config has not.
 */
export function packResult(
  signature: ModelSignature,
  sequence: number,
  timing: BatchTiming,
  outputs: readonly JoinedTensor[],
  giveAway: boolean,
): PackedResult {
  let words = HEAD_WORDS;
  let total = 0;
  for (const output of outputs) {
    words += OUTPUT_WORDS + shapeWords(output);
    total += aligned(output.data.byteLength);
  }
  const packed = total <= PACKED_BYTES_MAX;
  const frame = new ArrayBuffer(words * WORD_BYTES + (packed ? total : 0));
  const others: ArrayBuffer[] = [];
  const head = new Float64Array(frame, 0, words);
  const bytes = new Uint8Array(frame);
  let at = 0;
  head[at++] = sequence;
  head[at++] = timing.waitNs;
  head[at++] = timing.inputNs;
  head[at++] = timing.inferNs;
  head[at++] = timing.outputNs;
  head[at++] = outputs.length;
  head[at++] = packed ? 1 : 0;
  let offset = words * WORD_BYTES;
  for (const output of outputs) {
    const index = signature.outputs.findIndex(({ name }) => name === output.name);
    if (index < 0) throw new NereidError('INTERNAL', `model '${signature.name}' gave unknown output '${output.name}'`);
    head[at++] = index;
    head[at++] = packed ? offset : others.length;
    head[at++] = output.data.byteLength;
    at = writeShape(head, at, output);
    if (packed) {
      bytes.set(output.data, offset);
      offset += aligned(output.data.byteLength);
    } else {
      const own = giveAway ? wholeBuffer(output.data) : undefined;
      // Two outputs may be one tensor; a buffer can be transferred but once.
      others.push(own === undefined || others.includes(own) ? new Uint8Array(output.data).buffer : own);
    }
  }
  return { frame, others };
}

/** Writes how long the output phase took, known only once the frame is packed. */
export function setOutputNs(frame: ArrayBuffer, outputNs: number): void {
  new Float64Array(frame, 0, HEAD_WORDS)[OUTPUT_NS_WORD] = outputNs;
}

/** Reads what `packResult` wrote; `others` may end with the batch's frame. */
export function openResult(
  signature: ModelSignature,
  frame: ArrayBuffer,
  others: readonly ArrayBuffer[],
): OpenedResult {
  const head = new Float64Array(frame, 0, Math.floor(frame.byteLength / WORD_BYTES));
  let at = 0;
  const next = () => head[at++] ?? 0;
  const sequence = next();
  const timing = { waitNs: next(), inputNs: next(), inferNs: next(), outputNs: next() };
  const count = next();
  const packed = next() === 1;
  const outputs: JoinedTensor[] = [];
  for (let i = 0; i < count; i++) {
    const declared = signature.outputs[next()];
    const place = next();
    const byteLength = next();
    const shaped = readShape(next);
    const buffer = packed ? frame : others[place];
    if (declared === undefined || buffer === undefined) continue;
    const data = new Uint8Array(buffer, packed ? place : 0, byteLength);
    outputs.push({ name: declared.name, datatype: declared.datatype, data, ...shaped });
  }
  return { sequence, timing, outputs, returned: others[packed ? 0 : count] };
}

/** The buffer of a tensor that has it to itself. */
function wholeBuffer(data: Uint8Array): ArrayBuffer | undefined {
  const { buffer } = data;
  const whole = buffer instanceof ArrayBuffer && data.byteOffset === 0 && data.byteLength === buffer.byteLength;
  return whole ? buffer : undefined;
}

function aligned(length: number): number {
  return Math.ceil(length / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}
