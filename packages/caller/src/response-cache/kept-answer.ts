import { markAsUntransferable } from 'node:worker_threads';
import type { InferResponse, Parameters, Tensor } from '@nereid/protocol';

/** An answer without what is of one request alone. */
export interface KeptAnswer {
  readonly parameters: Parameters;
  readonly outputs: readonly Tensor[];
}

/** Where answers are kept, by their keys. What goes wrong is an answer that is not there; nothing rejects. */
export interface ResponseStore {
  /** A promise only where it has to be asked for elsewhere. */
  find(key: string): KeptAnswer | undefined | Promise<KeptAnswer | undefined>;
  /**
   * Keeps an answer, or does not: it may be too large, or the store full or away. Its bytes are copied before this
   * returns. A promise where that goes on afterwards.
   */
  keep(key: string, answer: KeptAnswer): undefined | Promise<void>;
  close(): void;
}

/** So that every datatype's array can view a tensor. */
const ALIGNMENT_BYTES = 8;
/** What an output takes beside its data and its names, about. */
const OUTPUT_BYTES = 256;
/** What an entry takes beside its outputs, about: its key, and its place in the order of use. */
const ENTRY_BYTES = 256;

/** About how much memory an answer takes. */
export function answerBytes({ parameters, outputs }: KeptAnswer): number {
  let bytes = ENTRY_BYTES;
  for (const { name, shape, data } of outputs) bytes += OUTPUT_BYTES + name.length + shape.length * 8 + data.byteLength;
  for (const [name, value] of Object.entries(parameters)) {
    bytes += OUTPUT_BYTES + name.length + (typeof value === 'string' ? value.length : 0);
  }
  return bytes;
}

/** The same with bytes of its own: those of an answer are often a view on the buffer of a whole batch. */
export function ownedAnswer({ parameters, outputs }: KeptAnswer): KeptAnswer {
  let bytes = 0;
  for (const { data } of outputs) bytes = aligned(bytes) + data.byteLength;
  const buffer = new ArrayBuffer(bytes);
  // Whoever gets a hit may send it to a thread, which then copies it.
  markAsUntransferable(buffer);
  let end = 0;
  const owned = outputs.map(({ name, datatype, shape, data }) => {
    const start = aligned(end);
    end = start + data.byteLength;
    const own = new Uint8Array(buffer, start, data.byteLength);
    own.set(data);
    return { name, datatype, shape: [...shape], data: own };
  });
  return { parameters, outputs: owned };
}

/** What is kept of a response. */
export function keptAnswer({ parameters, outputs }: InferResponse): KeptAnswer {
  return { parameters, outputs };
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}
