/** What the journal has of requests: recordings of sequences, step by step, and of single requests (docs/replay.md). */
import type { Datatype } from './datatype.ts';
import type { ErrorInfo } from './error.ts';
import type { InferRequest, Parameters } from './infer.ts';
import type { BatchTiming, ProcessId } from './message.ts';

/** A tensor with its data, or why they are not there. */
export interface RecordedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** As a Tensor's; absent where they are kept apart and have not been fetched, were not kept, or are redacted. */
  readonly data?: Uint8Array;
  /** SHA-256 of the data, hex: of those that are kept apart from their step, and of those that are not kept. */
  readonly digest?: string;
  /** Its name is one that the model's config says not to record (`nereid.journal_redact`): nothing of it is kept. */
  readonly redacted?: true;
}

/** A request as its instance got it; its number is `nereid_step`. */
export interface RecordedRequest
  extends Pick<
    InferRequest<RecordedTensor>,
    | 'id'
    | 'correlationId'
    | 'sequenceStart'
    | 'sequenceEnd'
    | 'sequenceStep'
    | 'priority'
    | 'timeoutUs'
    | 'parameters'
    | 'inputs'
    | 'requestedOutputs'
  > {}

/** One answer of any number. */
export type RecordedAnswer =
  | { readonly ok: true; readonly parameters: Parameters; readonly outputs: readonly RecordedTensor[] }
  | { readonly ok: false; readonly error: ErrorInfo };

/**
 * What became of a step at its instance. `applied`: the model answered, with outputs or an error, and the state of the
 * sequence is that after it. `cancelled`: nobody waited any more, it may have run. `lost`: its instance ended with it;
 * no state is left.
 */
export type StepEffect = 'applied' | 'cancelled' | 'lost';

/** A step of a sequence, or a single request. */
export interface RecordedStep {
  /** Its place in the recording, from 0. */
  readonly step: number;
  /** Of its message, by which explain finds it. */
  readonly token: string;
  readonly request: RecordedRequest;
  readonly modelVersion: string;
  /** SHA-256 of the completed config (`encodeModelConfig`), hex. */
  readonly configSha256: string;
  /** Of the model's files, as its record has it. */
  readonly contentHash: string;
  readonly worker: ProcessId;
  /** Position among the worker's instances of the version. */
  readonly instance: number;
  /** -1 for none. */
  readonly slot: number;
  /** Requests that ran in one execution, itself among them. */
  readonly batchSize: number;
  /** When its worker had it, wall-clock milliseconds. */
  readonly receivedMs: number;
  readonly timing: BatchTiming;
  readonly effect: StepEffect;
  /** In the order given; those of a cancelled or lost step are what came before. */
  readonly answers: readonly RecordedAnswer[];
}

/**
 * What became of a recording. `open`: more steps may come. `ended`: its last step said so, or it is a single request.
 * `cancelled`: its last step was. `freed`: its owner gave its slot to another, since it was idle for too long, was evicted
 * or began anew. `lost`: its state is gone with its instance or worker; its last applied step is the last that took
 * effect. `capped`: more came than is kept. `gap`: a step could not be recorded, so none behind it is.
 */
export const RECORDING_STATES = ['open', 'ended', 'cancelled', 'freed', 'lost', 'capped', 'gap'] as const;
export type RecordingState = (typeof RECORDING_STATES)[number];

export type RecordingKind = 'sequence' | 'request';

/** A recording without its steps. */
export interface Recording {
  /** `<model>~<session>`, the model's name encoded. Only a sequence of jobs may have one again, once BullMQ counts its jobs anew. */
  readonly id: string;
  readonly model: string;
  /** Of its last step. */
  readonly version: string;
  readonly kind: RecordingKind;
  /** 0n of a single request. */
  readonly correlationId: bigint | string;
  /** The client's id of its first request, '' for none. */
  readonly requestId: string;
  readonly state: RecordingState;
  /** Those recorded, a last one that was lost or cancelled too. */
  readonly steps: number;
  /** Of what is kept. */
  readonly bytes: number;
  /** When its first and its last step came, wall-clock milliseconds. */
  readonly startedMs: number;
  readonly lastMs: number;
  /** Of its last step. */
  readonly worker: ProcessId;
  readonly configSha256: string;
  readonly contentHash: string;
  /** It came as a file. */
  readonly imported: boolean;
}
