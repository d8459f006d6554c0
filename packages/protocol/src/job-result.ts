/** The return value of a job: a v2 infer response as a JSON value; and how a failed job says why. */
import { bytesElements } from './bytes-elements.ts';
import { ERROR_TABLE, type ErrorCode, type ErrorInfo, NereidError } from './error.ts';
import type { InferResponse } from './infer.ts';
import { type JobBlobs, namedTensor, totalBytes } from './job-blobs.ts';
import type { JobRespond } from './job-data.ts';
import { isJsonObject, isSafe, type JsonObject, parametersText, plainParameters } from './job-json.ts';
import { base64Tensor, tensorsText } from './job-tensors.ts';
import type { RequestLimits } from './protocol-limits.ts';
import { elementCount, type Tensor } from './tensor.ts';
import { typedView } from './tensor-values.ts';
import { decodeInferRequest } from './v2-request.ts';

/** A return value of up to so many bytes of JSON has its outputs as JSON, unless the job says otherwise. */
const JSON_BYTES_MAX = 16_384;
/** An element takes at least a digit and a comma. */
const ELEMENT_BYTES_MIN = 2;
/** A number takes no more, with its comma; nor a character, nor what is around an output and around all. */
const ELEMENT_BYTES_MAX = 27;
const CHARACTER_BYTES_MAX = 6;
const OUTPUT_BYTES_MAX = 64;
const REST_BYTES_MAX = 128;

/** Outputs of more than this in all go beside the return value, unless the job says otherwise. */
const BASE64_BYTES_MAX = 262_144;

/** Where an output is put that the return value only names: gives its reference. */
export type PutOutput = (output: Tensor, index: number) => string;

/**
 * The return value. Without `put` no output is beside it, whatever the job says. Throws INVALID_ARG for an output that
 * has no JSON form where JSON was asked for.
 */
export function encodeJobResult(response: InferResponse, respond: JobRespond, put?: PutOutput): JsonObject {
  const { outputs } = response;
  const isLarge = (respond === 'auto' || respond === 'binary') && totalBytes(outputs) > BASE64_BYTES_MAX;
  if (put !== undefined && (respond === 'blob' || isLarge)) {
    return withOutputs(
      response,
      outputs.map((output, index) => namedTensor(output, put(output, index))),
    );
  }
  return encodeInline(response, respond);
}

function encodeInline(response: InferResponse, respond: JobRespond): JsonObject {
  if (respond === 'json') return withOutputs(response, response.outputs.map(jsonOutput));
  if (respond !== 'auto' || tooLong(response.outputs)) return withOutputs(response, response.outputs.map(base64Tensor));
  const json = withOutputs(response, response.outputs.map(jsonOrBase64));
  if (isShort(response) || Buffer.byteLength(JSON.stringify(json)) <= JSON_BYTES_MAX) return json;
  return withOutputs(response, response.outputs.map(base64Tensor));
}

/** Reads a return value; `blobs` are those that its outputs name. Throws INTERNAL where it is none of ours: anyone may finish a job of a queue. */
export function decodeJobResult(
  value: unknown,
  options: { readonly modelName: string; readonly limits: RequestLimits; readonly blobs?: JobBlobs },
): InferResponse {
  const { modelName, limits } = options;
  const members = isJsonObject(value) ? value : {};
  try {
    const { text, binary } = tensorsText(members.outputs, limits.json_depth_max, options.blobs);
    const parameters = parametersText(members.parameters ?? {}, limits.json_depth_max);
    const document = Buffer.from(`{"parameters":${parameters},"inputs":${text}}`);
    const { request } = decodeInferRequest(Buffer.concat([document, ...binary]), {
      modelName,
      modelVersion: '',
      headerLength: document.byteLength,
      limits,
    });
    return {
      modelName,
      modelVersion: textOf(members.model_version),
      id: textOf(members.id),
      parameters: request.parameters,
      outputs: request.inputs,
    };
  } catch (cause) {
    throw new NereidError('INTERNAL', `the job's return value is no infer response: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** BullMQ's `failedReason` of this error. */
export function failedReason({ code, message }: ErrorInfo): string {
  return `${code}: ${message}`;
}

/** What a `failedReason` says; INTERNAL where it is not ours, e.g. BullMQ's own. */
export function parseFailedReason(text: string): ErrorInfo {
  const [code = ''] = text.split(': ', 1);
  if (!Object.hasOwn(ERROR_TABLE, code)) return { code: 'INTERNAL', message: text };
  return { code: code as ErrorCode, message: text.slice(code.length + 2) };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function withOutputs(response: InferResponse, outputs: readonly unknown[]): JsonObject {
  const parameters = plainParameters(response.parameters);
  return {
    ...(response.id === '' ? {} : { id: response.id }),
    model_name: response.modelName,
    model_version: response.modelVersion,
    ...(Object.keys(parameters).length === 0 ? {} : { parameters }),
    outputs,
  };
}

/** Surely within the limit, so that it need not be written to be measured. */
function isShort({ id, modelName, parameters, outputs }: InferResponse): boolean {
  let bytes = REST_BYTES_MAX + (id.length + modelName.length) * CHARACTER_BYTES_MAX;
  for (const { name, datatype, shape } of outputs) {
    if (datatype === 'BYTES') return false;
    const elements = (elementCount(shape) ?? JSON_BYTES_MAX) + shape.length;
    bytes += OUTPUT_BYTES_MAX + name.length * CHARACTER_BYTES_MAX + elements * ELEMENT_BYTES_MAX;
  }
  return bytes <= JSON_BYTES_MAX && Object.keys(parameters).length === 0;
}

function tooLong(outputs: readonly Tensor[]): boolean {
  let bytes = 0;
  for (const { shape } of outputs) bytes += (elementCount(shape) ?? 0) * ELEMENT_BYTES_MIN;
  return bytes > JSON_BYTES_MAX;
}

/** As JSON, or in base64 where that has no form for it. */
export function jsonOrBase64(tensor: Tensor): unknown {
  const data = jsonElements(tensor);
  return data === undefined ? base64Tensor(tensor) : jsonTensor(tensor, data);
}

function jsonOutput(tensor: Tensor): unknown {
  const data = jsonElements(tensor);
  if (data !== undefined) return jsonTensor(tensor, data);
  throw new NereidError(
    'INVALID_ARG',
    `sending ${tensor.datatype} data of output '${tensor.name}' via JSON is not supported. Please use respond 'b64' or 'auto'`,
    { field: 'respond' },
  );
}

function jsonTensor({ name, datatype, shape }: Tensor, data: readonly unknown[]): unknown {
  return { name, datatype, shape, data };
}

/** A tensor's elements as JSON values; undefined where they have none: FP16, BF16, bytes that are no UTF-8. */
function jsonElements(tensor: Tensor): readonly unknown[] | undefined {
  switch (tensor.datatype) {
    case 'FP16':
    case 'BF16':
      return undefined;
    case 'BYTES':
      return texts(tensor);
    case 'BOOL':
      return Array.from(typedView(tensor) as Uint8Array, (value) => value !== 0);
    case 'INT64':
    case 'UINT64':
      return Array.from(typedView(tensor) as BigInt64Array, (value) => (isSafe(value) ? Number(value) : String(value)));
    case 'FP32':
    case 'FP64':
      return Array.from(typedView(tensor) as Float64Array, (value) => (Number.isFinite(value) ? value : String(value)));
    default:
      return Array.from(typedView(tensor) as Int32Array);
  }
}

function texts(tensor: Tensor): readonly string[] | undefined {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    return bytesElements(tensor.data, tensor.name).map((element) => decoder.decode(element));
  } catch {
    return undefined;
  }
}
