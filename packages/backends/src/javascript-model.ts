/** What a JavaScript model's module exports and gets (the public contract of that backend). */
import type { ElementArray, InferInput, TensorInput } from '@nereid/protocol';
import type { BackendLog, Device } from './backend.ts';

/** `data` is the datatype's typed array (FP16 and BF16: Uint16Array bits, BOOL: Uint8Array), BYTES: Uint8Array[]. */
export interface ModelTensor {
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: ElementArray | readonly Uint8Array[];
}

/** Set in `flags` on a sequence's first request, as in Triton (tritonserver.h, TRITONSERVER_requestflag_enum). */
export const FLAG_SEQUENCE_START = 1;
/** Set in `flags` on a sequence's last request. */
export const FLAG_SEQUENCE_END = 2;

export interface ModelRequest {
  readonly id: string;
  /** 0n or '' for none. */
  readonly correlationId: bigint | string;
  readonly flags: number;
  /** How long the client lets the request wait in the queue, in microseconds; 0 where it does not say. */
  readonly timeoutUs: number | bigint;
  /** Integers are numbers where they are safe, else bigints. */
  readonly parameters: Readonly<Record<string, string | boolean | bigint | number>>;
  /** With the controls of a sequence's step. */
  readonly inputs: ReadonlyMap<string, ModelTensor>;
  /** The implicit states of its sequence, by their `input_name`; copies, which the model may keep. */
  readonly state: ReadonlyMap<string, ModelTensor>;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/**
 * What a call asks of a model: what a program asks of a server, and the inputs also as a `Map`, such as a request's own,
 * or as a list. Whole numbers among the parameters are integers.
 */
export interface ModelCallInput extends Omit<InferInput, 'model' | 'version' | 'inputs'> {
  readonly inputs:
    | Readonly<Record<string, TensorInput>>
    | ReadonlyMap<string, TensorInput | ModelTensor>
    | readonly (TensorInput & { readonly name: string })[];
}

export interface ModelCallOptions {
  /** The greatest ready version without it. */
  readonly version?: string;
  /** Cancels the call, wherever it is by then. */
  readonly signal?: AbortSignal;
  /**
   * The requests that the call is made for, one or several of those that `execute` got; without it all that run then,
   * and none with an empty list. It is cancelled once nobody waits for any of them, and belongs to the trace of the
   * first. Made for a single request that is named here it carries that one's id, unless it has an id of its own.
   */
  readonly request?: ModelRequest | readonly ModelRequest[];
}

/** An answer of a called model. It has the form of a response, and may be one; its data are the caller's own. */
export interface ModelAnswer {
  readonly modelName: string;
  readonly modelVersion: string;
  /** Integers are numbers where they are safe, else bigints. */
  readonly parameters: Readonly<Record<string, string | boolean | bigint | number>>;
  readonly outputs: Readonly<Record<string, ModelTensor>>;
}

/**
 * A call that was sent. Awaited it gives the one answer; of a decoupled model, which may give any number, it is iterated
 * (`for await`), and so may any other be. Either once. Both throw an Error with a `code` of the table of errors and the
 * called model's text: at the first answer that is one. Who leaves the iteration early cancels the call.
 */
export type ModelCall = Promise<ModelAnswer> & AsyncIterable<ModelAnswer>;

export interface ModelContext {
  readonly log: BackendLog;
  /**
   * Calls a model of the server or cluster as any client would: its queue, batches, statistics and errors are the same.
   * The time that a call takes counts as the caller's compute time. A model may call while it is initialized, and from
   * then on until `finalize`; what is open then is cancelled. An instance may have LIMITS.model_calls_max calls open:
   * one more fails as UNAVAILABLE.
   */
  infer(model: string, input: ModelCallInput, options?: ModelCallOptions): ModelCall;
  readonly metrics: unknown;
}

export interface ModelStart {
  /** The completed configuration in the form of `GET /v2/models/{model}/config`. */
  readonly modelConfig: unknown;
  readonly instanceName: string;
  readonly device: Device;
  readonly version: string;
  readonly context: ModelContext;
}

/** The module's exports; only `execute` is needed. */
export interface ModelModule {
  readonly initialize?: (start: ModelStart) => unknown;
  /**
   * One response, Error or async iterable of responses per request. An iterable of a model that is
   * not decoupled must have exactly one. `batchInputs` has the config's `batch_input`s of these
   * requests by target name. A ragged input has its own shape in each request.
   */
  readonly execute: (requests: readonly ModelRequest[], batchInputs: ReadonlyMap<string, ModelTensor>) => unknown;
  readonly finalize?: () => unknown;
}
