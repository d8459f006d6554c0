/** What /nereid/v1/journal tells; what is not known is absent. */

export interface RecordingJson {
  readonly id: string;
  readonly model_name: string;
  readonly model_version: string;
  readonly kind: string;
  readonly sequence_id?: number | string;
  readonly request_id?: string;
  readonly state: string;
  readonly steps: number;
  /** Where fewer took effect than are recorded, or it was lost. */
  readonly steps_applied?: number;
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
  readonly byte_size?: number;
  readonly digest?: string;
  readonly redacted?: boolean;
  readonly data?: readonly unknown[];
  readonly b64?: string;
}

export interface AnswerJson {
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly outputs?: readonly TensorJson[];
  readonly error?: { readonly code: string; readonly message: string };
}

export interface StepJson {
  readonly step: number;
  readonly token: string;
  readonly request_id?: string;
  readonly sequence_start?: boolean;
  readonly sequence_end?: boolean;
  readonly sequence_step?: number;
  readonly priority?: number | string;
  readonly timeout_us?: number | string;
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly inputs: readonly TensorJson[];
  readonly requested_outputs?: readonly string[];
  readonly model_version: string;
  readonly worker: string;
  readonly instance: number;
  readonly slot?: number;
  readonly batch_size: number;
  readonly received_at: string;
  readonly timing: { readonly wait_ns: number; readonly infer_ns: number };
  readonly effect: string;
  readonly answers: readonly AnswerJson[];
}
