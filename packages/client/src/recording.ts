/** What the journal has of requests (docs/replay.md), as the server tells it; times are RFC 3339, what is not known is absent. */
import { fromBase64 } from './base64.ts';
import { isDatatype } from './datatype.ts';
import { type ErrorCode, NereidError } from './error.ts';
import { isObject, objectOf } from './json.ts';
import { type TensorOutput, tensorOfBytes, tensorOfJson } from './tensor.ts';

/**
 * `open`: more steps may come. `ended`: its last step said so, or it is a single request. `cancelled`: its last step
 * was. `freed`: it was idle for too long, was evicted or began anew. `lost`: its state is gone with its worker.
 * `capped`: more came than is kept. `gap`: a step could not be recorded, so none behind it is.
 */
export type RecordingState = 'open' | 'ended' | 'cancelled' | 'freed' | 'lost' | 'capped' | 'gap';

export interface Recording {
  readonly id: string;
  readonly model_name: string;
  /** Of its last step. */
  readonly model_version: string;
  readonly kind: 'sequence' | 'request';
  readonly sequence_id?: number | string;
  readonly request_id?: string;
  readonly state: RecordingState;
  readonly steps: number;
  /** How many took effect, of one that was lost or cancelled; only `get` and `steps` tell it. */
  readonly steps_applied?: number;
  readonly bytes: number;
  readonly started_at: string;
  readonly last_at: string;
  readonly worker: string;
  readonly config_sha256: string;
  readonly content_hash: string;
  /** It came as a file. */
  readonly imported: boolean;
}

/** Without `tensor` where its data were not asked for, are not kept, or are redacted. */
export interface RecordedTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  /** SHA-256 of the data, hex, where they are large. */
  readonly digest?: string;
  readonly redacted?: boolean;
  readonly tensor?: TensorOutput;
}

/** Outputs, or an error. */
export interface RecordedAnswer {
  readonly outputs: readonly RecordedTensor[];
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

export interface RecordedStep {
  readonly step: number;
  /** By which `nereid explain` finds it. */
  readonly token: string;
  readonly request_id?: string;
  readonly sequence_start?: boolean;
  readonly sequence_end?: boolean;
  /** Its client's own number. */
  readonly sequence_step?: number;
  /** Integers beyond 2^53 are texts. */
  readonly parameters?: Readonly<Record<string, string | boolean | number>>;
  readonly inputs: readonly RecordedTensor[];
  readonly model_version: string;
  readonly worker: string;
  readonly instance: number;
  readonly slot?: number;
  readonly batch_size: number;
  readonly received_at: string;
  readonly timing: {
    readonly wait_ns: number;
    readonly input_ns: number;
    readonly infer_ns: number;
    readonly output_ns: number;
  };
  /** `cancelled`: nobody waited any more, and it may have taken effect. `lost`: what ran it ended with it. */
  readonly effect: 'applied' | 'cancelled' | 'lost';
  /** One, or all those of a decoupled model. */
  readonly answers: readonly RecordedAnswer[];
}

/** Throws INTERNAL where it is none. */
export function recordingOf(value: unknown): Recording {
  if (isObject(value) && typeof value.id === 'string' && typeof value.state === 'string')
    return value as unknown as Recording;
  throw new NereidError('INTERNAL', "the server's answer is no recording");
}

/** With its tensors as values. Throws INTERNAL where it is none. */
export function recordedStepOf(value: unknown): RecordedStep {
  const step = objectOf(value, 'recorded step');
  const answers = listOf(step.answers).map((each) => {
    const answer = objectOf(each, 'recorded answer');
    return { ...answer, outputs: listOf(answer.outputs).map(recordedTensorOf) };
  });
  return { ...step, inputs: listOf(step.inputs).map(recordedTensorOf), answers } as unknown as RecordedStep;
}

function recordedTensorOf(value: unknown): RecordedTensor {
  const { data, b64, byte_size: _, ...about } = objectOf(value, 'recorded tensor');
  const { name, datatype, shape } = about as unknown as RecordedTensor;
  if (typeof name !== 'string' || !isDatatype(datatype) || !Array.isArray(shape)) {
    throw new NereidError('INTERNAL', `recorded tensor '${name}' of the server's answer is no tensor`);
  }
  if (Array.isArray(data))
    return { ...about, name, datatype, shape, tensor: tensorOfJson(name, datatype, shape, data) };
  if (typeof b64 !== 'string') return { ...about, name, datatype, shape };
  return { ...about, name, datatype, shape, tensor: tensorOfBytes(name, datatype, shape, fromBase64(b64)) };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
