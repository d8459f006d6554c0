import type { BytesInFlight } from '@nereid/caller';
import type { Outcome, RequestedOutput } from '@nereid/protocol';
import type { Result } from './result.ts';
import type { SharedMemory } from './shared-memory.ts';
import { holdSharedOutputs } from './shared-outputs.ts';

/** What a request has of shared memory: the bytes that its inputs were copied from it, and places for its outputs. */
export interface SharedUse {
  /** An answer, with the outputs that go to shared memory put there; a failure where they do not fit. */
  place(outcome: Outcome): Outcome;
  /** When no more answers come; idempotent. */
  release(): void;
}

/** Undefined: the request has nothing of it. */
export type SharedUsed = Result<SharedUse | undefined>;

const NOTHING: SharedUsed = { ok: true, value: undefined };

/** `bytes` are those that the request's inputs took. Whoever gets a use releases it, however the request ends. */
export function useSharedMemory(
  memory: SharedMemory,
  inFlight: BytesInFlight,
  bytes: number,
  outputs: readonly RequestedOutput[],
): SharedUsed {
  if (bytes > 0 && !inFlight.take(bytes)) return { ok: false, error: inFlight.refusal() };
  const held = holdSharedOutputs(memory, outputs);
  if (!held.ok) {
    inFlight.release(bytes);
    return held;
  }
  const places = held.value;
  if (bytes === 0 && places === undefined) return NOTHING;
  let open = true;
  const use: SharedUse = {
    place: (outcome) => (outcome.ok && places !== undefined ? places.place(outcome.response) : outcome),
    release() {
      if (!open) return;
      open = false;
      inFlight.release(bytes);
      places?.release();
    },
  };
  return { ok: true, value: use };
}
