/** Requests and answers of the v2 protocol in their binary form: JSON, and the tensors' bytes behind it. */
import { isDatatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { isObject, type JsonObject, jsonText, objectOf, type Parameters, parseJson } from './json.ts';
import { type TensorInput, type TensorOutput, tensorBytes, tensorOfBytes, tensorOfJson } from './tensor.ts';

/** What makes a request a step of a sequence (docs/sequences.md). */
export interface SequenceInput {
  /** From 1 to 2^64 - 1, or a text of up to 128 bytes; a number and a text are never the same id. */
  readonly id: number | bigint | string;
  /** The first step. */
  readonly start?: boolean;
  /** The last one. */
  readonly end?: boolean;
  /** The step's own number, from 0: it may then be repeated. */
  readonly step?: number;
}

/** A wanted output by name, or its greatest classes in place of its values. */
export type WantedOutput = string | { readonly name: string; readonly classification?: number };

/** A request, as `infer` of `createServer` takes it too. */
export interface InferInput {
  readonly model: string;
  /** The greatest ready version without it. */
  readonly version?: string;
  readonly id?: string;
  readonly inputs: Readonly<Record<string, TensorInput>>;
  /** All without it. */
  readonly outputs?: readonly WantedOutput[];
  readonly sequence?: SequenceInput;
  /** 0, the default, for the model's default level. */
  readonly priority?: number | bigint;
  /** How long it may wait in the queue, in microseconds; 0, the default, for what the model's queue policy says. */
  readonly timeoutUs?: number | bigint;
  /** Whether it is recorded, with its sequence where it begins one (docs/replay.md); as the model's config says without it. */
  readonly journal?: boolean;
  /** For the model. */
  readonly parameters?: Parameters;
}

export interface InferResult {
  readonly model: string;
  readonly version: string;
  readonly id: string;
  readonly parameters: Parameters;
  readonly outputs: Readonly<Record<string, TensorOutput>>;
}

export const HEADER_LENGTH = 'Inference-Header-Content-Length';

/** A v2 request's JSON members beside its inputs, with all parameters. Throws INVALID_ARG. */
export function requestMembers(input: Omit<InferInput, 'model' | 'version' | 'inputs'>): JsonObject {
  const { id, outputs, sequence, priority, timeoutUs, journal } = input;
  return {
    id: id === '' ? undefined : id,
    parameters: {
      ...checkedParameters(input.parameters ?? {}),
      ...(sequence === undefined ? {} : sequenceParameters(sequence)),
      priority: isUnset(priority) ? undefined : priority,
      timeout: isUnset(timeoutUs) ? undefined : timeoutUs,
      nereid_journal: journal,
      binary_data_output: outputs === undefined ? true : undefined,
    },
    outputs: outputs?.map(outputMembers),
  };
}

function sequenceParameters({ id, start, end, step }: SequenceInput): JsonObject {
  return {
    sequence_id: id,
    sequence_start: start === true ? true : undefined,
    sequence_end: end === true ? true : undefined,
    nereid_step: step,
  };
}

function isUnset(value: number | bigint | undefined): boolean {
  return value === undefined || BigInt(value) === 0n;
}

function checkedParameters(parameters: Parameters): Parameters {
  for (const [name, value] of Object.entries(parameters)) {
    const isNumber = typeof value === 'number' && Number.isFinite(value);
    if (isNumber || ['string', 'boolean', 'bigint'].includes(typeof value)) continue;
    throw new NereidError('INVALID_ARG', `parameter '${name}' must be a text, boolean, bigint or finite number`, {
      field: `parameters.${name}`,
    });
  }
  return parameters;
}

function outputMembers(output: WantedOutput): JsonObject {
  const { name, classification } = typeof output === 'string' ? { name: output, classification: undefined } : output;
  return { name, parameters: { binary_data: true, classification } };
}

export interface EncodedRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** The body of infer and of jobs. Throws INVALID_ARG naming what does not fit. */
export function encodeRequest(input: InferInput): EncodedRequest {
  const parts: Uint8Array[] = [];
  const inputs = tensorsOf(input.inputs).map(([name, tensor]) => {
    const bytes = tensorBytes(name, tensor);
    parts.push(bytes);
    const { datatype, shape } = tensor;
    return { name, datatype, shape, parameters: { binary_data_size: bytes.byteLength } };
  });
  const json = new TextEncoder().encode(jsonText({ ...requestMembers(input), inputs }));
  const body = new Uint8Array(parts.reduce((size, part) => size + part.byteLength, json.byteLength));
  body.set(json);
  let end = json.byteLength;
  for (const part of parts) {
    body.set(part, end);
    end += part.byteLength;
  }
  return { headers: { 'Content-Type': 'application/octet-stream', [HEADER_LENGTH]: String(json.byteLength) }, body };
}

/** The tensors by name. Throws INVALID_ARG where they are none. */
export function tensorsOf(inputs: Readonly<Record<string, TensorInput>>): readonly [string, TensorInput][] {
  if (!isObject(inputs))
    throw new NereidError('INVALID_ARG', 'inputs must be an object of tensors by name', { field: 'inputs' });
  return Object.entries(inputs).map(([name, tensor]) => {
    if (isObject(tensor)) return [name, tensor];
    throw new NereidError('INVALID_ARG', `inputs.${name} must be an object with datatype, shape and data`, {
      field: `inputs.${name}`,
    });
  });
}

/** An answer to infer; `headerLength` is its header of that name. Throws INTERNAL where it is none. */
export function decodeAnswer(body: Uint8Array<ArrayBuffer>, headerLength: string | null): InferResult {
  const length = headerLength === null ? body.byteLength : Number(headerLength);
  const answer = objectOf(parsed(body.subarray(0, length)), 'answer');
  let at = length;
  return resultOf(answer, (name, { parameters }) => {
    const size = isObject(parameters) ? parameters.binary_data_size : undefined;
    if (typeof size !== 'number') throw unreadable(name);
    const start = at;
    at += size;
    if (at > body.byteLength) throw new NereidError('INTERNAL', `the server's answer ends within output '${name}'`);
    return body.subarray(start, at);
  });
}

/** A v2 response from its JSON; `bytes` finds those of an output that has no `data`. */
export function resultOf(
  answer: JsonObject,
  bytes: (name: string, output: JsonObject) => Uint8Array<ArrayBuffer>,
): InferResult {
  const outputs = (Array.isArray(answer.outputs) ? answer.outputs : []).map((output: unknown) => {
    const members = objectOf(output, 'output');
    const { name, datatype, shape, data } = members;
    if (typeof name !== 'string' || !isDatatype(datatype) || !isShape(shape)) throw unreadable(String(name));
    if (Array.isArray(data)) return [name, tensorOfJson(name, datatype, shape, data)] as const;
    return [name, tensorOfBytes(name, datatype, shape, bytes(name, members))] as const;
  });
  return {
    model: textOf(answer.model_name),
    version: textOf(answer.model_version),
    id: textOf(answer.id),
    parameters: isObject(answer.parameters) ? (answer.parameters as Parameters) : {},
    outputs: Object.fromEntries(outputs),
  };
}

function parsed(json: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder().decode(json));
  } catch (cause) {
    throw new NereidError('INTERNAL', "the server's answer is no JSON", { cause });
  }
}

function unreadable(name: string): NereidError {
  return new NereidError('INTERNAL', `output '${name}' of the server's answer is no tensor`);
}

function isShape(shape: unknown): shape is readonly number[] {
  return Array.isArray(shape) && shape.every((dimension) => Number.isSafeInteger(dimension));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
