/**
 * What passes between a worker and an instance's thread or process (of a process: pipe-frames.ts).
 *
 * Batches and joined results are frames: one ArrayBuffer, transferred, that begins with 64-bit
 * float words and goes on with the tensors' bytes (batch-frame.ts, result-frame.ts). A round trip of
 * a nested object with a buffer costs four times as much as that of a frame (about 60 and 15 µs
 * measured on two shared cores), nearly all of it in the worker's own thread, which is where the
 * server saturates. All else is rare and takes plain objects.
 */
import type { BatchPlace, CallAnswer, InstanceLoad } from '@nereid/backends';
import type { WarmupSample } from '@nereid/config';
import type { BatchTiming, ErrorInfo, InferRequest, Parameters, ResponseTimes, Tensor } from '@nereid/protocol';

/** `workerData` of the thread, or a process's first message: what it loads but for the log and calls, which go to the worker. */
export interface InstanceSetup extends Omit<InstanceLoad, 'log' | 'calls'> {
  /** LIMITS.model_calls_max. */
  readonly callsMax: number;
  /** What it runs before it is loaded, made by `warmupSamples`. */
  readonly warmup: readonly WarmupSample[];
}

/**
 * What only backends that need requests one by one get of each: id, correlation id, START, END,
 * priority, timeout, parameters, requested outputs and sequence slot. An array, since property names would be
 * copied for each request.
 */
export type RequestDetail = readonly [
  id: string,
  correlationId: bigint | string,
  sequenceStart: boolean,
  sequenceEnd: boolean,
  priority: bigint,
  timeoutUs: bigint,
  parameters: Parameters,
  requestedOutputs: readonly string[],
  /** -1 where the model keeps no sequences. */
  slot: number,
];

export interface StopOrder {
  readonly kind: 'stop';
}

export const STOP: StopOrder = { kind: 'stop' };

/** Nobody waits any more for the request at that position of that batch. */
export interface CancelOrder {
  readonly kind: 'cancel';
  readonly sequence: number;
  readonly position: number;
}

/** The worker has taken so many chunks and bytes of outputs since it last said so. */
export interface TakenOrder {
  readonly kind: 'taken';
  readonly chunks: number;
  readonly bytes: number;
}

/** An answer to the model's call of that number. Its outputs' bytes lie in one buffer, which is given away. */
export interface AnswerOrder extends CallAnswer {
  readonly kind: 'answer';
  readonly call: number;
  /** Of its outputs. */
  readonly bytes: number;
}

/** A batch frame, with the requests' details where the backend needs them. */
export type BatchOrder = ArrayBuffer | readonly [ArrayBuffer, readonly RequestDetail[]];

export type InstanceOrder = BatchOrder | CancelOrder | StopOrder | TakenOrder | AnswerOrder;

export interface LoadedReport {
  readonly kind: 'loaded';
  readonly needsRequests: boolean;
}

export interface LoadFailedReport {
  readonly kind: 'load-failed';
  readonly error: ErrorInfo;
}

/** An exception that nobody catches: the end of a process, which has no other way to tell. */
export interface ThrownReport {
  readonly kind: 'thrown';
  readonly text: string;
}

export interface LogReport {
  readonly kind: 'log';
  readonly level: 'info' | 'warn' | 'error';
  readonly text: string;
}

/** One request's part of a result that is no frame. */
export type RunOutcome =
  | {
      readonly ok: true;
      readonly parameters: Parameters;
      readonly outputs: readonly Tensor[];
      /** The model wants the step once more, and this is no answer (iterative sequences). */
      readonly again?: true;
    }
  | { readonly ok: false; readonly error: ErrorInfo };

export interface OutcomesReport {
  readonly kind: 'outcomes';
  readonly sequence: number;
  /** False where all were cancelled before the batch began. */
  readonly executed: boolean;
  readonly timing: BatchTiming;
  /** One per request, in order; of a request whose answers came as chunks how it ended. */
  readonly outcomes: readonly RunOutcome[];
  /** Of answers that came as chunks. */
  readonly responses?: ResponseTimes;
}

/** One of the answers to the request at that position of its batch. */
export interface StreamChunk {
  readonly position: number;
  readonly outcome: RunOutcome;
  readonly last: boolean;
}

export interface ChunkReport extends StreamChunk {
  readonly kind: 'chunk';
  readonly sequence: number;
  /** Of its outputs. */
  readonly bytes: number;
}

/** The model calls another one. */
export interface CallReport {
  readonly kind: 'call';
  /** Names the call among all of its carrier. */
  readonly call: number;
  /** Its inputs' bytes lie in one buffer, which is given away. */
  readonly request: InferRequest;
  /** As of ModelCalls. */
  readonly places: readonly BatchPlace[] | undefined;
}

/** The model has read so many of a call's answers since it last said so. */
export interface CallReadReport {
  readonly kind: 'call-read';
  readonly call: number;
  readonly chunks: number;
  readonly bytes: number;
}

/** The model does not want the rest of that call. */
export interface CallLeftReport {
  readonly kind: 'call-left';
  readonly call: number;
}

export type CallsReport = CallReport | CallReadReport | CallLeftReport;

/** A result frame; several buffers where outputs are large (the first is the frame) or the batch's frame comes back. */
export type InstanceReport =
  | ArrayBuffer
  | readonly ArrayBuffer[]
  | LoadedReport
  | LoadFailedReport
  | LogReport
  | ThrownReport
  | CallsReport
  | ChunkReport
  | OutcomesReport;

export function isBuffers(report: Exclude<InstanceReport, ArrayBuffer>): report is readonly ArrayBuffer[] {
  return Array.isArray(report);
}
