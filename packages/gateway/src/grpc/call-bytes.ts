import type { BytesInFlight } from '@nereid/caller';
import type { ErrorInfo } from '@nereid/protocol';

/**
 * What one call holds of its gateway's bytes. It is *open* until the call's stream has closed, then it
 * holds nothing and takes nothing: what comes still is thrown away.
 */
export interface CallBytes {
  /** False once the call's stream has closed. */
  readonly open: boolean;
  /** More has come; false where the gateway holds too much, and nothing is taken. */
  take(bytes: number): boolean;
  /** Of an answer, as it is handed to the connection. */
  add(bytes: number): void;
  release(bytes: number): void;
  close(): void;
  /** Why nothing more is taken. */
  refusal(): ErrorInfo;
}

export function createCallBytes(inFlight: BytesInFlight): CallBytes {
  let held = 0;
  let open = true;
  return {
    get open() {
      return open;
    },
    take(bytes) {
      if (!open) return true;
      if (!inFlight.take(bytes)) return false;
      held += bytes;
      return true;
    },
    add(bytes) {
      if (!open) return;
      inFlight.add(bytes);
      held += bytes;
    },
    release(bytes) {
      if (!open) return;
      held -= bytes;
      inFlight.release(bytes);
    },
    close() {
      if (!open) return;
      open = false;
      inFlight.release(held);
      held = 0;
    },
    refusal: inFlight.refusal,
  };
}
