import { errorInfo, type InferResponse, NereidError, type Outcome, type RequestedOutput } from '@nereid/protocol';
import type { Result } from './result.ts';
import type { HeldPlace, SharedMemory } from './shared-memory.ts';

/** The places in shared memory that the answers to one request go to. */
export interface SharedOutputs {
  /**
   * Writes the outputs that have a place there; they are without data in what comes back. An output
   * larger than its place fails the request.
   */
  place(response: InferResponse): Outcome;
  /** When no more answers come; idempotent. */
  release(): void;
}

/** Undefined: no output goes to shared memory. */
export type HeldOutputs = Result<SharedOutputs | undefined>;

interface Placed {
  readonly byteSize: number;
  readonly held: HeldPlace;
}

const NONE: HeldOutputs = { ok: true, value: undefined };
const NO_DATA = new Uint8Array(0);

/** Holds the places of the outputs, so that no region goes away before the answer is there. */
export function holdSharedOutputs(memory: SharedMemory, outputs: readonly RequestedOutput[]): HeldOutputs {
  if (!outputs.some(isShared)) return NONE;
  const places = new Map<string, Placed>();
  const seen = new Set<string>();
  try {
    for (const [index, { name, sharedMemory }] of outputs.entries()) {
      // Of an output that is listed twice the first entry counts.
      if (seen.has(name)) continue;
      seen.add(name);
      if (sharedMemory === undefined) continue;
      const held = memory.hold(sharedMemory, `outputs[${index}]`);
      places.set(name, { byteSize: sharedMemory.byteSize, held });
    }
  } catch (thrown) {
    releaseAll(places);
    return { ok: false, error: errorInfo(thrown) };
  }
  return { ok: true, value: sharedOutputs(places) };
}

function isShared({ sharedMemory }: RequestedOutput): boolean {
  return sharedMemory !== undefined;
}

function sharedOutputs(places: ReadonlyMap<string, Placed>): SharedOutputs {
  return {
    place(response) {
      try {
        const outputs = response.outputs.map((output) => {
          const placed = places.get(output.name);
          if (placed === undefined) return output;
          const { byteLength } = output.data;
          if (byteLength > placed.byteSize) throw tooSmall(output.name, placed.byteSize, byteLength);
          placed.held.write(output.data);
          return { ...output, data: NO_DATA };
        });
        return { ok: true, response: { ...response, outputs } };
      } catch (thrown) {
        return { ok: false, error: errorInfo(thrown) };
      }
    },
    release: () => releaseAll(places),
  };
}

/** Triton's text; there with 500, though only the client can mend it. */
function tooSmall(name: string, byteSize: number, needed: number): NereidError {
  return new NereidError(
    'INVALID_ARG',
    `shared memory size specified with the request for output '${name}' (${byteSize} bytes) ` +
      `should be at least ${needed} bytes to hold the results`,
    { field: 'outputs.parameters.shared_memory_byte_size' },
  );
}

function releaseAll(places: ReadonlyMap<string, Placed>): void {
  for (const { held } of places.values()) held.release();
}
