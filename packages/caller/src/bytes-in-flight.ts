import type { ErrorInfo } from '@nereid/protocol';

/**
 * How many bytes the requests of one gateway hold, over both doors: each request's body from its first
 * byte, what it reads from shared memory, and its answers, waiting ones of streams too, until they are written. A door takes bytes as
 * they come and releases as many at the end of the request, however it ends.
 */
export interface BytesInFlight {
  /** Held now; 0 when nothing is going on. */
  readonly held: number;
  /** At the limit, or beyond it by answers. */
  readonly full: boolean;
  /** Takes so many; false where that would pass the limit, and none are taken. */
  take(bytes: number): boolean;
  /** Takes so many of an answer, which is there already and cannot be refused any more. */
  add(bytes: number): void;
  release(bytes: number): void;
  /** Of a request that was refused: 503, and what to do. */
  refusal(): ErrorInfo;
}

export function createBytesInFlight(bytes_max: number): BytesInFlight {
  let held = 0;
  return {
    get held() {
      return held;
    },
    get full() {
      return held >= bytes_max;
    },
    take(bytes) {
      if (held + bytes > bytes_max) return false;
      held += bytes;
      return true;
    },
    add(bytes) {
      held += bytes;
    },
    release(bytes) {
      held -= bytes;
    },
    refusal() {
      const message =
        `too many bytes in flight: requests and unread answers hold ${held} bytes, of ${bytes_max} at most. ` +
        'Try again, or use --max-bytes-in-flight to increase the limit.';
      return { code: 'UNAVAILABLE', message };
    },
  };
}
