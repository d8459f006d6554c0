/** Requests and answers with plain values, as programs in JavaScript have them. */
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { type InferRequest, type InferResponse, type Parameters, REQUEST_DEFAULTS } from './infer.ts';
import { type TensorValues, tensorFromValues, tensorValues } from './tensor-values.ts';

const UINT64_MAX = 2n ** 64n - 1n;

export interface TensorInput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Row-major elements: the datatype's typed array, or numbers, bigints, booleans, strings, bytes. */
  readonly data: TensorValues;
}

/** What makes a request a step of a sequence (docs/sequences.md). */
export interface SequenceInput {
  /** From 1 to 2^64 - 1, or a string of up to 128 bytes; a number and a string are never the same id. */
  readonly id: number | bigint | string;
  /** The first step. */
  readonly start?: boolean;
  /** The last one. */
  readonly end?: boolean;
  /** The step's own number, from 0: `nereid_step`. */
  readonly step?: number;
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
  /** Of a model that keeps sequences. */
  readonly sequence?: SequenceInput;
  /** 0, the default, for the model's default level. */
  readonly priority?: number | bigint;
  /** How long it may wait in the queue, in microseconds; 0, the default, for what the model's queue policy says. */
  readonly timeoutUs?: number | bigint;
  /** Whether it is recorded, with its sequence where it begins one (docs/replay.md); what the model's config says without it. */
  readonly journal?: boolean;
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

/**
 * Throws INVALID_ARG naming the member that is of a wrong kind (callers in plain JavaScript send
 * anything), or the tensor whose values do not fit its datatype or shape.
 */
export function inferRequest(input: InferInput): InferRequest {
  if (!isObject(input)) throw wrong('input', 'an object with model and inputs');
  if (!isObject(input.inputs)) throw wrong('inputs', 'an object of tensors by name');
  return {
    ...REQUEST_DEFAULTS,
    ...(input.sequence === undefined ? {} : sequenceOf(input.sequence)),
    ...(input.journal === undefined ? {} : { journal: flag('journal', input.journal) }),
    modelName: text('model', input.model),
    modelVersion: text('version', input.version ?? ''),
    id: text('id', input.id ?? ''),
    priority: unsigned('priority', input.priority ?? 0n),
    timeoutUs: unsigned('timeoutUs', input.timeoutUs ?? 0n),
    parameters: parametersOf(input.parameters ?? {}),
    requestedOutputs: outputNames(input.outputs ?? []),
    inputs: Object.entries(input.inputs).map(([name, tensor]) => {
      if (!isObject(tensor)) throw wrong(`inputs.${name}`, 'an object with datatype, shape and data');
      return tensorFromValues(name, tensor.datatype, tensor.shape, tensor.data);
    }),
  };
}

function unsigned(field: string, value: unknown): bigint {
  const whole = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof whole === 'bigint' && whole >= 0n && whole <= UINT64_MAX) return whole;
  throw wrong(field, 'a whole number from 0 to 2^64 - 1');
}

type StepMembers = Pick<InferRequest, 'correlationId' | 'sequenceStart' | 'sequenceEnd' | 'sequenceStep'>;

function sequenceOf(sequence: SequenceInput): StepMembers {
  if (!isObject(sequence)) throw wrong('sequence', 'an object with an id');
  const { id, start = false, end = false, step } = sequence;
  const correlationId = typeof id === 'number' && Number.isSafeInteger(id) ? BigInt(id) : id;
  const isId =
    typeof correlationId === 'string' ||
    (typeof correlationId === 'bigint' && correlationId >= 0n && correlationId <= UINT64_MAX);
  if (!isId) throw wrong('sequence.id', 'a whole number from 1 to 2^64 - 1, or a string');
  const members = {
    correlationId,
    sequenceStart: flag('sequence.start', start),
    sequenceEnd: flag('sequence.end', end),
  };
  if (step === undefined) return members;
  if (!Number.isSafeInteger(step) || step < 0) throw wrong('sequence.step', 'a whole number from 0');
  return { ...members, sequenceStep: step };
}

function flag(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw wrong(name, `a boolean, got ${typeof value}`);
  return value;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Map);
}

function text(field: string, value: unknown): string {
  if (typeof value !== 'string') throw wrong(field, `a string, got ${typeof value}`);
  return value;
}

function outputNames(names: unknown): string[] {
  if (!Array.isArray(names)) throw wrong('outputs', 'an array of names');
  return names.map((name, index) => text(`outputs[${index}]`, name));
}

function parametersOf(parameters: unknown): Parameters {
  if (!isObject(parameters)) throw wrong('parameters', 'an object of values by name');
  const entries = Object.entries(parameters);
  for (const [name, value] of entries) {
    if (!PARAMETER_KINDS.has(typeof value)) {
      throw wrong(`parameters.${name}`, `a string, boolean, bigint or number, got ${typeof value}`);
    }
  }
  return Object.fromEntries(entries);
}

const PARAMETER_KINDS: ReadonlySet<string> = new Set(['string', 'boolean', 'bigint', 'number']);

function wrong(field: string, wanted: string): NereidError {
  return new NereidError('INVALID_ARG', `${field} must be ${wanted}`, { field });
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
