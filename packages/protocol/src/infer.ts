import type { ErrorInfo } from './error.ts';
import type { Tensor } from './tensor.ts';

/** Request and response parameters: bigint is an integer, number a double. */
export type ParameterValue = string | boolean | bigint | number;
export type Parameters = Readonly<Record<string, ParameterValue>>;

/** What HTTP JSON, HTTP binary, gRPC and BullMQ data become at the door. Between processes `T` may be a reference. */
export interface InferRequest<T = Tensor> {
  readonly modelName: string;
  /** Decimal version, or '' for the greatest ready one; inside also as `orWhereItsSequenceIs` has it. */
  readonly modelVersion: string;
  /** The client's id, '' for none. */
  readonly id: string;
  /** uint64 or string; 0n or '' for none. Both kinds are distinct keys. */
  readonly correlationId: bigint | string;
  readonly sequenceStart: boolean;
  readonly sequenceEnd: boolean;
  /** `nereid_step`, the client's own number of the step from 0; absent for none. Between processes their messages carry it. */
  readonly sequenceStep?: number;
  /** 0 for the model's default level. */
  readonly priority: bigint;
  /** Queue timeout override in microseconds, 0n for none. */
  readonly timeoutUs: bigint;
  /** `nereid_journal`: whether it is recorded, with its sequence where it begins one; absent for what the model's config says. */
  readonly journal?: boolean;
  /** The correlation id that its model sees, where that is not its own: a replayed sequence has its own and shows the recorded one. Absent in what comes by a door. */
  readonly shownId?: bigint | string;
  /** Custom parameters for the model, without those that the fields above hold. */
  readonly parameters: Parameters;
  readonly inputs: readonly T[];
  /** Names of the outputs wanted; empty for all of the config. */
  readonly requestedOutputs: readonly string[];
  /** The W3C trace context (`traceparent`) of the call that it belongs to; absent for none. */
  readonly trace?: string;
  /** Absent in what comes by a door. */
  readonly inner?: InnerCall;
  /** A line of a batch, or called for one: it takes what instances have to spare. Absent for false, and in what comes by a door. */
  readonly background?: boolean;
}

/** What a request says that the cluster makes itself: a step of an ensemble, or a call of a model. Its answer tells the times of its batch. */
export interface InnerCall {
  /** Outputs that are to stay with the worker that makes them, where they are large: only other calls need them. */
  readonly keep: readonly string[];
  /** The request that it is made for, by which explain finds it; absent where nobody knows. */
  readonly parent?: ParentCall;
}

export interface ParentCall {
  /** `{process}:{g}`, as its message has it. */
  readonly id: string;
  /** The ensemble's step from 0; -1 for a model's own call. */
  readonly step: number;
}

/** What a request has where nothing is said; the model and its inputs are always said. */
export const REQUEST_DEFAULTS: Omit<InferRequest, 'modelName' | 'inputs'> = {
  modelVersion: '',
  id: '',
  correlationId: 0n,
  sequenceStart: false,
  sequenceEnd: false,
  priority: 0n,
  timeoutUs: 0n,
  parameters: {},
  requestedOutputs: [],
};

/** The request with the parameters of ours that it has; most have none and stay as they are. */
export function withOwnParameters(
  request: InferRequest,
  sequenceStep: number | undefined,
  journal: boolean | undefined,
): InferRequest {
  if (sequenceStep === undefined && journal === undefined) return request;
  return {
    ...request,
    ...(sequenceStep === undefined ? {} : { sequenceStep }),
    ...(journal === undefined ? {} : { journal }),
  };
}

const WHERE_IT_IS = '~';

/** As `modelVersion` of a step: the version where its sequence lives, or this one where it lives at none. No door takes it. */
export function orWhereItsSequenceIs(version: string): string {
  return `${WHERE_IT_IS}${version}`;
}

/** What such a text says; `elsewhere`: the sequence may live at another version. */
export function versionAsked(modelVersion: string): { readonly version: string; readonly elsewhere: boolean } {
  if (!modelVersion.startsWith(WHERE_IT_IS)) return { version: modelVersion, elsewhere: modelVersion === '' };
  return { version: modelVersion.slice(WHERE_IT_IS.length), elsewhere: true };
}

export interface InferResponse<T = Tensor> {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: Parameters;
  readonly outputs: readonly T[];
}

/** What becomes of a request. Expected failures are values. */
export type Outcome<T = Tensor> =
  | { readonly ok: true; readonly response: InferResponse<T> }
  | { readonly ok: false; readonly error: ErrorInfo };
