import { DATATYPE_BYTES, type Datatype, isDatatype } from './datatype.ts';
import { isJsonObject, type JsonObject } from './job-json.ts';
import { BASE64 } from './job-tensors.ts';
import type { RequestLimits } from './protocol-limits.ts';
import { elementCount, type Tensor } from './tensor.ts';
import type { DecodedRequest } from './v2-request.ts';

/** What is longer gains little. */
const ELEMENTS_MAX = 1_024;
const INPUTS_MAX = 16;
const DIMENSIONS_MAX = 8;
const MEMBERS = 4;
/** As deep as `inputs[0].data[0]` stands. */
const DEPTH = 4;
/** No longer as a text than what any limit allows. */
const BYTES_MAX = 65_536;
const PRINTABLE = /^[\x20-\x7e]{1,128}$/;

/** Numbers that a tensor has as they are. */
const ARRAYS: Partial<Record<Datatype, new (values: readonly number[]) => Float32Array | Float64Array | IntegerArray>> =
  {
    FP32: Float32Array,
    FP64: Float64Array,
    INT8: Int8Array,
    INT16: Int16Array,
    INT32: Int32Array,
    UINT8: Uint8Array,
    UINT16: Uint16Array,
    UINT32: Uint32Array,
  };
type IntegerArray = Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array;

/**
 * The request of job data that have nothing but a few small tensors in their plain form, which is what most jobs are:
 * what the whole reader would make of them, at a fifth of its cost. Undefined leaves the data to that, and every mistake.
 */
export function plainJobRequest(
  members: JsonObject,
  options: { readonly modelName: string; readonly limits: RequestLimits },
): DecodedRequest | undefined {
  const { id, parameters, inputs, outputs, model_version: version, sequence_index: index } = members;
  if (outputs !== undefined || version !== undefined || index !== undefined || !Array.isArray(inputs)) return undefined;
  if (id !== undefined && !(typeof id === 'string' && PRINTABLE.test(id))) return undefined;
  if (parameters !== undefined && !(isJsonObject(parameters) && Object.keys(parameters).length === 0)) return undefined;
  const { modelName, limits } = options;
  if (inputs.length > INPUTS_MAX || limits.json_depth_max < DEPTH || limits.bytes_max < BYTES_MAX) return undefined;
  const tensors: Tensor[] = [];
  let elements = 0;
  for (const input of inputs) {
    const tensor = isJsonObject(input) ? plainTensor(input) : undefined;
    if (tensor === undefined) return undefined;
    elements += elementCount(tensor.shape) ?? 0;
    tensors.push(tensor);
  }
  if (elements > Math.min(ELEMENTS_MAX, limits.elements_max)) return undefined;
  const request = {
    modelName,
    modelVersion: '',
    id: id ?? '',
    correlationId: 0n,
    sequenceStart: false,
    sequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    parameters: {},
    inputs: tensors,
    requestedOutputs: [],
  };
  return { request, outputs: [], binaryDefault: false };
}

function plainTensor(tensor: JsonObject): Tensor | undefined {
  const { name, datatype, shape, data, b64 } = tensor;
  if (Object.keys(tensor).length !== MEMBERS || typeof name !== 'string' || !PRINTABLE.test(name)) return undefined;
  if (!isDatatype(datatype) || !isPlainShape(shape)) return undefined;
  const count = elementCount(shape);
  if (count === undefined || count === 0 || count > ELEMENTS_MAX) return undefined;
  const own =
    data === undefined ? base64Bytes(b64, count * DATATYPE_BYTES[datatype]) : numberBytes(data, datatype, count);
  return own && { name, datatype, shape, data: own };
}

function isPlainShape(shape: unknown): shape is readonly number[] {
  if (!Array.isArray(shape) || shape.length > DIMENSIONS_MAX) return false;
  for (const dimension of shape) if (!Number.isSafeInteger(dimension) || !(dimension > 0)) return false;
  return true;
}

function base64Bytes(b64: unknown, size: number): Uint8Array | undefined {
  if (typeof b64 !== 'string' || !BASE64.test(b64)) return undefined;
  const { buffer, byteOffset, byteLength } = Buffer.from(b64, 'base64');
  // Tensors of texts have any size.
  return byteLength === size ? new Uint8Array(buffer, byteOffset, byteLength) : undefined;
}

function numberBytes(data: unknown, datatype: Datatype, count: number): Uint8Array | undefined {
  const Elements = ARRAYS[datatype];
  if (Elements === undefined || !Array.isArray(data) || data.length !== count) return undefined;
  for (const value of data) if (typeof value !== 'number') return undefined;
  const elements = new Elements(data);
  const isFloat = datatype === 'FP32' || datatype === 'FP64';
  for (let at = 0; at < count; at++) {
    // A whole number is to be the same; of a floating-point number only its last digits may go.
    if (isFloat ? !Number.isFinite(elements[at]) : elements[at] !== data[at]) return undefined;
  }
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
}
