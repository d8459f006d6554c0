/**
 * What /nereid/v1/journal tells: gateways write it, and the command reads it. What is not known is absent: JSON leaves
 * undefined members out.
 */

export interface RecordingJson {
  readonly id: string;
  readonly model_name: string;
  readonly model_version: string;
  readonly kind: string;
  readonly sequence_id?: number | string | undefined;
  readonly request_id?: string | undefined;
  readonly state: string;
  readonly steps: number;
  /** Where fewer took effect than are recorded, or it was lost. */
  readonly steps_applied?: number | undefined;
  readonly bytes: number;
  readonly started_at: string;
  readonly last_at: string;
  readonly worker: string;
  readonly config_sha256: string;
  readonly content_hash: string;
  readonly imported: boolean;
}

/** `data` or `b64` where they are asked for and kept. */
export interface TensorJson {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly byte_size?: number | undefined;
  readonly digest?: string | undefined;
  readonly redacted?: boolean | undefined;
  readonly data?: readonly unknown[] | undefined;
  readonly b64?: string | undefined;
}

export interface AnswerJson {
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
  readonly outputs?: readonly TensorJson[] | undefined;
  readonly error?:
    | {
        readonly code: string;
        readonly message: string;
        readonly field?: string | undefined;
        readonly reason?: string | undefined;
      }
    | undefined;
}

export interface StepJson {
  readonly step: number;
  readonly token: string;
  readonly request_id?: string | undefined;
  readonly sequence_id?: number | string | undefined;
  readonly sequence_start?: boolean | undefined;
  readonly sequence_end?: boolean | undefined;
  readonly sequence_step?: number | undefined;
  readonly priority?: number | string | undefined;
  readonly timeout_us?: number | string | undefined;
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
  readonly inputs: readonly TensorJson[];
  readonly requested_outputs?: readonly string[] | undefined;
  readonly model_version: string;
  readonly config_sha256: string;
  readonly content_hash: string;
  readonly worker: string;
  readonly instance: number;
  readonly slot?: number | undefined;
  readonly batch_size: number;
  readonly received_at: string;
  readonly timing: {
    readonly wait_ns: number;
    readonly input_ns: number;
    readonly infer_ns: number;
    readonly output_ns: number;
  };
  readonly effect: string;
  readonly answers: readonly AnswerJson[];
}
