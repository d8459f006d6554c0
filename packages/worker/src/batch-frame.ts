/**
 * A batch on its way to an instance's thread or process, in one ArrayBuffer. Words of 64-bit floats, then the
 * inputs' bytes, each input aligned and all requests' bytes of an input contiguous:
 *
 *   sequence, receivedNs, requests, wanted, inputs,
 *   rows of each request, index of each wanted output (none: all),
 *   per input: index, byte offset, byte length, shape (frame-shapes.ts)
 */
import type { JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import type { InferRequest } from '@nereid/protocol';
import { readShape, shapeWords, writeShape } from './frame-shapes.ts';
import { ALIGNMENT_BYTES, type JoinedBatch, joinInputs } from './join-split.ts';

const HEAD_WORDS = 5;
const INPUT_WORDS = 3;
const WORD_BYTES = 8;

export interface OpenedBatch {
  readonly sequence: number;
  readonly receivedNs: number;
  readonly rows: readonly number[];
  readonly wantedOutputs: readonly string[];
  /** Views on the frame. */
  readonly joined: readonly JoinedTensor[];
}

/**
 * Copies the inputs of `requests` into one buffer, which `take` gives: it may be larger and need not be cleared.
 * Throws INTERNAL where they cannot be joined.
 */
export function packBatch(
  signature: ModelSignature,
  requests: readonly InferRequest[],
  sequence: number,
  receivedNs: number,
  take: (bytes: number) => ArrayBuffer,
): ArrayBuffer {
  const batch = joinInputs(signature, requests);
  const wanted = wantedIndexes(signature, requests);
  const words = headWords(batch, wanted);
  let size = words * WORD_BYTES;
  for (const input of batch.inputs) size = aligned(size) + input.byteLength;

  const buffer = take(size);
  const head = new Float64Array(buffer, 0, words);
  const bytes = new Uint8Array(buffer);
  let at = 0;
  head[at++] = sequence;
  head[at++] = receivedNs;
  head[at++] = batch.rows.length;
  head[at++] = wanted.length;
  head[at++] = batch.inputs.length;
  for (const count of batch.rows) head[at++] = count;
  for (const index of wanted) head[at++] = index;
  let offset = words * WORD_BYTES;
  for (const input of batch.inputs) {
    offset = aligned(offset);
    head[at++] = input.index;
    head[at++] = offset;
    head[at++] = input.byteLength;
    at = writeShape(head, at, input);
    for (const part of input.parts) {
      bytes.set(part, offset);
      offset += part.byteLength;
    }
  }
  return buffer;
}

/** Reads what `packBatch` wrote. */
export function openBatch(signature: ModelSignature, buffer: ArrayBuffer): OpenedBatch {
  const head = new Float64Array(buffer, 0, Math.floor(buffer.byteLength / WORD_BYTES));
  let at = 0;
  const next = () => head[at++] ?? 0;
  const sequence = next();
  const receivedNs = next();
  const requestCount = next();
  const wantedCount = next();
  const inputCount = next();
  const rows: number[] = [];
  for (let i = 0; i < requestCount; i++) rows.push(next());
  const wantedOutputs: string[] = [];
  for (let i = 0; i < wantedCount; i++) wantedOutputs.push(signature.outputs[next()]?.name ?? '');
  const joined: JoinedTensor[] = [];
  for (let i = 0; i < inputCount; i++) {
    const declared = signature.inputs[next()];
    const offset = next();
    const byteLength = next();
    const shaped = readShape(next);
    if (declared === undefined) continue;
    const { name, datatype } = declared;
    const data = new Uint8Array(buffer, offset, byteLength);
    joined.push({ name, datatype, data, ...shaped });
  }
  return { sequence, receivedNs, rows, wantedOutputs, joined };
}

function headWords(batch: JoinedBatch, wanted: readonly number[]): number {
  let words = HEAD_WORDS + batch.rows.length + wanted.length;
  for (const input of batch.inputs) words += INPUT_WORDS + shapeWords(input);
  return words;
}

/** Positions of the outputs that at least one request wants; none where one of them wants all. */
function wantedIndexes(signature: ModelSignature, requests: readonly InferRequest[]): readonly number[] {
  const wanted = new Set<string>();
  for (const { requestedOutputs } of requests) {
    if (requestedOutputs.length === 0) return [];
    for (const name of requestedOutputs) wanted.add(name);
  }
  const indexes: number[] = [];
  for (const [index, { name }] of signature.outputs.entries()) if (wanted.has(name)) indexes.push(index);
  return indexes;
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}
