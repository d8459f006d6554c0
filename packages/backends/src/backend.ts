/**
 * The contract between an instance's thread or process and what runs the model.
 * Everything here runs on the instance's own thread; nothing of onnxruntime shows.
 */
import type { ModelConfig, ModelSignature } from '@nereid/config';
import type { InferRequest, Outcome, Tensor } from '@nereid/protocol';
import type { ModelCalls } from './model-calls.ts';

/** Where an instance runs. `id` is the GPU's index, 0 on the CPU. */
export interface Device {
  readonly kind: 'cpu' | 'gpu' | 'model';
  readonly id: number;
}

export interface InstanceLoad {
  /** Completed and normalised. */
  readonly config: ModelConfig;
  /**
   * `modelSignature` and `modelConfigJson` of the config, made by the caller: a backend imports
   * nothing of @nereid/config but types and its `reshape.js`, since loading all of it takes longer than starting a
   * thread, and each thread would hold its own.
   */
  readonly signature: ModelSignature;
  readonly configJson: string;
  readonly version: string;
  /** Absolute folders of the model and of this version in it. */
  readonly modelDirectory: string;
  readonly versionDirectory: string;
  /** `<group>_<k>`, as Triton names it. */
  readonly instanceName: string;
  readonly device: Device;
  /** `--backend-config` of this backend and of all backends, key to value. */
  readonly settings: Readonly<Record<string, string>>;
  readonly log: BackendLog;
  /** By which the model calls other models. */
  readonly calls: ModelCalls;
}

export interface BackendLog {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** Where a request stands among what its instance was given. */
export interface BatchPlace {
  /** The number of its batch. */
  readonly sequence: number;
  readonly position: number;
}

export interface BatchRequest {
  readonly request: InferRequest;
  /** By which a call says that it is made for this request. */
  readonly place?: BatchPlace | undefined;
  /**
   * Aborted when nobody waits any more, which may have been before the execution began; runs cannot
   * always be stopped, answers are then dropped. May be made when it is first read.
   */
  readonly signal: AbortSignal;
  /** Of a step of a sequence: the model's states of that sequence, by their input names. */
  readonly states?: readonly Tensor[];
}

/**
 * A tensor over all requests of a batch. `shapes` is there where the requests' parts differ in shape:
 * one per request, in order; the tensor is then the run of their elements, of shape [elements].
 */
export interface JoinedTensor extends Tensor {
  readonly shapes?: readonly (readonly number[])[];
}

/**
 * What one execution gets. `joined` has the inputs of all requests concatenated along the first
 * dimension where the model batches (max_batch_size > 0), and is the one request's inputs where it
 * does not. Shapes are the clients' (reshape is the backend's to apply). A ragged input has `shapes`,
 * also of a single request.
 */
export interface Batch {
  /** Empty where the instance does not need them (`needsRequests`). */
  readonly requests: readonly BatchRequest[];
  /** Rows of each request: its first dimension, or 1 where the model does not batch. */
  readonly rows: readonly number[];
  readonly joined: readonly JoinedTensor[];
  /**
   * Inputs over all rows that no request has, in the model's shapes: controls and states of sequences. Left
   * out where the model sees requests one by one: they are in `requests` then.
   */
  readonly made?: readonly Tensor[];
  /** Names of the outputs that at least one request wants; empty for all of the config. */
  readonly wantedOutputs: readonly string[];
}

/** What became of one request, and what only a step of a sequence tells beside it. */
export type RequestOutcome = Outcome & {
  /** The sequence's new states, by their output names; one that is not told stays as it is. */
  readonly states?: readonly Tensor[];
  /** The model wants to run the request once more (`release: 'reschedule'`). */
  readonly again?: true;
};

/**
 * `joined`: outputs over all rows, in the clients' shapes, to be split by `rows`, or by their `shapes`
 * where they have some. An output that
 * covers its whole ArrayBuffer gives that buffer away: nobody may hold on to it. Of a model with states
 * `states` are its outputs of these, in the model's shapes.
 * `each`: one outcome per request, in order; its tensors are copied before the next execution begins.
 * Of a decoupled model it may be an iterable of any number of outcomes: the execution goes on until
 * all of them have ended, and one whose request is cancelled is returned. What an iterable throws
 * ends it, as the last outcome.
 */
export type BatchResult =
  | { readonly kind: 'joined'; readonly outputs: readonly JoinedTensor[]; readonly states?: readonly Tensor[] }
  | { readonly kind: 'each'; readonly outcomes: readonly (RequestOutcome | AsyncIterable<RequestOutcome>)[] };

export interface BackendInstance {
  /**
   * True where the model sees requests one by one (ids, parameters, own tensors). Where it is
   * false only joined tensors cross to the instance's thread.
   */
  readonly needsRequests: boolean;
  /**
   * One execution at a time. A throw fails the batch, with INTERNAL unless it is a NereidError: each of
   * its requests is then executed alone once, and fails alone, but steps of sequences all fail with it.
   * `each` is for what only some fail by.
   */
  execute(batch: Batch): Promise<BatchResult>;
  /** Frees the model. Called once, never during an execution. */
  finalize(): Promise<void>;
}

export interface Backend {
  readonly name: string;
  /** Loads one instance. Throws a NereidError that says what to mend. */
  load(load: InstanceLoad): Promise<BackendInstance>;
}
