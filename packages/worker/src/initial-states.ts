/** What the states of a sequence are at its START. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Device } from '@nereid/backends';
import type { InitialStateSignature, ModelSignature, StateSignature } from '@nereid/config';
import { bytesElements, DATATYPE_BYTES, type Datatype, elementCount, NereidError } from '@nereid/protocol';

/** A state of one sequence, in the shape of one request: with a first dimension of 1 where the model batches. */
export interface HeldState {
  readonly shape: readonly number[];
  readonly data: Uint8Array<ArrayBuffer>;
}

/** As `@nereid/config` has it, which is not loaded here: that takes longer than starting a thread. */
const INITIAL_STATE_FOLDER = 'initial_state';
/** Of an empty element of a BYTES tensor: its length. */
const EMPTY_ELEMENT_BYTES = 4;

/**
 * Throws INVALID_ARG, in Triton's words (sequence_state.cc), where a state may grow in memory of a GPU and the instance
 * has none: what KIND_AUTO becomes is known here at the latest.
 */
export function checkGrowable({ sequence }: ModelSignature, device: Device): void {
  const growing = device.kind === 'gpu' ? undefined : sequence?.states.find(({ growable }) => growable);
  if (growing === undefined) return;
  const text = "'use_growable_memory' can only work with KIND_GPU model instances right now. Please either change the";
  const fix = "instance type to KIND_GPU or set 'use_growable_memory' to false for state input";
  throw new NereidError('INVALID_ARG', `${text} ${fix} '${growing.inputName}'.`);
}

/**
 * The initial states in the order of the signature. Without an `initial_state` they are zeros (Triton
 * leaves them undefined, sequence_state.cc); dimensions that are variable begin as 1.
 * Throws INVALID_ARG for a file that cannot be read or does not hold what its dims say.
 */
export function loadInitialStates(signature: ModelSignature, modelDirectory: string): Promise<readonly HeldState[]> {
  const states = signature.sequence?.states ?? [];
  const batch = signature.maxBatchSize > 0 ? [1] : [];
  return Promise.all(
    states.map(async (state) => {
      const dims = state.initial?.dims ?? state.dims.map((dim) => (dim === -1 ? 1 : dim));
      const { datatype, initial } = state;
      const data =
        initial?.file === undefined
          ? zeroData(datatype, dims)
          : await fileData(state, initial, join(modelDirectory, INITIAL_STATE_FOLDER, initial.file));
      return { shape: [...batch, ...dims], data };
    }),
  );
}

/** Zeros, which are empty texts in a BYTES tensor. */
export function zeroData(datatype: Datatype, shape: readonly number[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array((DATATYPE_BYTES[datatype] || EMPTY_ELEMENT_BYTES) * (elementCount(shape) ?? 0));
}

async function fileData(
  { inputName, datatype }: StateSignature,
  { dims }: InitialStateSignature,
  path: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const refuse = (why: string) =>
    new NereidError('INVALID_ARG', `the initial state of '${inputName}' cannot be used: ${why}`);
  let read: Buffer;
  try {
    read = await readFile(path);
  } catch (cause) {
    throw refuse(cause instanceof Error ? cause.message : String(cause));
  }
  const count = elementCount(dims) ?? 0;
  const size = DATATYPE_BYTES[datatype];
  if (size > 0 && read.byteLength !== size * count) {
    throw refuse(`it takes ${size * count} bytes and '${path}' has ${read.byteLength}`);
  }
  if (size === 0) {
    const found = bytesElements(read, inputName).length;
    if (found !== count) throw refuse(`it takes ${count} elements and '${path}' has ${found}`);
  }
  return new Uint8Array(read);
}
