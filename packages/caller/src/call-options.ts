import type { BatchTiming, MissingMessage } from '@nereid/protocol';
import type { AliasRoute } from './alias-route.ts';
import type { BytesInFlight } from './bytes-in-flight.ts';
import type { CallMark } from './call-notes.ts';
import type { LeaveSignal } from './leave-signal.ts';

/** How a request is called for, beside what it says itself. */
export interface CallOptions {
  /** Cancels it wherever it is. */
  readonly signal?: LeaveSignal | undefined;
  /** The caller has a deadline and gives up after so many milliseconds, by `signal`; a queue drops the request then even if it never hears. */
  readonly msLeft?: number;
  /** Told at the call where a request to an alias goes; of none that is refused at once, and of no other. */
  readonly routed?: ((route: AliasRoute) => void) | undefined;
  /** Of a stream: unread answers count in it. */
  readonly inFlight?: BytesInFlight | undefined;
  /** By which door it came; gets the request's token. Of inner calls there is none. */
  readonly mark?: CallMark | undefined;
  /** Told the times of its batch just before its last outcome; of an inner call whose model has run. */
  readonly timed?: ((timing: BatchTiming) => void) | undefined;
  /**
   * Told that a worker did not find an input that another process has put down. True where the caller sees to it: the
   * request then waits on as if it had not been sent, until `signal`.
   */
  readonly missing?: ((message: MissingMessage) => boolean) | undefined;
}
