/** What a JavaScript model's module exports and gets (the public contract of that backend). */
import type { ElementArray } from '@nereid/protocol';
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

export interface ModelContext {
  readonly log: BackendLog;
  infer(model: string, request: unknown, options?: unknown): Promise<unknown>;
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
