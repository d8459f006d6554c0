/** Calls of other models by a model, as its instance's thread or process offers them to a backend. */
import type { ErrorInfo, InferRequest, Outcome } from '@nereid/protocol';
import type { BatchPlace } from './backend.ts';

export interface ModelCalls {
  /**
   * Sends the request at once. `places`: the requests that the call is made for, by which it is cancelled once nobody
   * waits for any of them; empty for none, undefined for all of the batch that runs. Never throws: what goes wrong is
   * an answer.
   */
  open(request: InferRequest, places: readonly BatchPlace[] | undefined): OpenModelCall;
}

/** A call that was sent; it is over with the answer that is `last`. */
export interface OpenModelCall {
  /** The next answer, in their order. Not called again after the last one. */
  next(): Promise<CallAnswer>;
  /** Nobody wants the rest. The last answer comes nevertheless, soon and as CANCELLED unless it was on its way. */
  cancel(): void;
}

export interface CallAnswer {
  /** A success without outputs that is `last` is the end alone (Triton's empty final response). */
  readonly outcome: Outcome;
  readonly last: boolean;
  /** The called model may give any number of answers. */
  readonly decoupled: boolean;
}

/** One that was not sent. */
export function failedCall(error: ErrorInfo): OpenModelCall {
  return { next: async () => ({ outcome: { ok: false, error }, last: true, decoupled: false }), cancel() {} };
}
