import {
  type Datatype,
  type InferRequest,
  type InferResponse,
  NereidError,
  type Parameters,
  REQUEST_DEFAULTS,
  type TensorValues,
  tensorFromValues,
  tensorValues,
} from '@nereid/protocol';

export interface TensorInput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Row-major elements: the datatype's typed array, or numbers, bigints, booleans, strings, bytes. */
  readonly data: TensorValues;
}

/** A request with plain values, as `Server.infer` takes it. */
export interface InferInput {
  readonly model: string;
  /** The greatest ready version without it. */
  readonly version?: string;
  readonly id?: string;
  readonly inputs: Readonly<Record<string, TensorInput>>;
  /** Names of the outputs wanted; all without it. */
  readonly outputs?: readonly string[];
  /** Custom parameters for the model; bigint is an integer, number a double. */
  readonly parameters?: Parameters;
}

export interface TensorOutput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /**
   * The datatype's typed array (BOOL: Uint8Array; FP16, BF16: Uint16Array of bits, see `fp16ToFp32` and
   * `bf16ToFp32`), for BYTES one Uint8Array per element.
   */
  readonly data: ReturnType<typeof tensorValues>;
}

export interface InferResult {
  readonly model: string;
  readonly version: string;
  readonly id: string;
  readonly parameters: Parameters;
  readonly outputs: Readonly<Record<string, TensorOutput>>;
}

/** Throws INVALID_ARG naming the tensor whose values do not fit its datatype or shape. */
export function inferRequest(input: InferInput): InferRequest {
  if (typeof input.inputs !== 'object' || input.inputs === null) {
    throw new NereidError('INVALID_ARG', 'inputs must be an object of tensors by name', { field: 'inputs' });
  }
  return {
    ...REQUEST_DEFAULTS,
    modelName: input.model,
    modelVersion: input.version ?? '',
    id: input.id ?? '',
    parameters: input.parameters ?? {},
    requestedOutputs: input.outputs ?? [],
    inputs: Object.entries(input.inputs).map(([name, { datatype, shape, data }]) =>
      tensorFromValues(name, datatype, shape, data),
    ),
  };
}

/** The response's tensors as values; they may lie in buffers shared by a batch, so do not write to them. */
export function inferResult(response: InferResponse): InferResult {
  return {
    model: response.modelName,
    version: response.modelVersion,
    id: response.id,
    parameters: response.parameters,
    outputs: Object.fromEntries(
      response.outputs.map((output) => [
        output.name,
        { datatype: output.datatype, shape: output.shape, data: tensorValues(output) },
      ]),
    ),
  };
}
