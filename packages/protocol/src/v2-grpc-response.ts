/** A ModelInferResponse or ModelStreamInferResponse (grpc_service.proto), outputs always as raw bytes. */
import { INT64_MAX } from './element-array.ts';
import { NereidError } from './error.ts';
import type { InferResponse, Parameters, ParameterValue } from './infer.ts';
import { DELIMITED, FIXED64, FIXED64_BYTES, VARINT } from './protobuf-reader.ts';
import {
  delimitedBytes,
  integerBytes,
  openDelimited,
  type ProtobufWriter,
  textBytes,
  varintBytes,
  writeByte,
  writeDouble,
  writeInteger,
  writeText,
  writeVarint,
} from './protobuf-writer.ts';
import type { Tensor } from './tensor.ts';

/** Up to so many bytes, copying a tensor into the message is cheaper than a write of its own. */
const JOINED_BYTES_MAX = 65_536;
/** gRPC's own bound of a message. */
const MESSAGE_BYTES_MAX = 2_147_483_647;

const MODEL_NAME = (1 << 3) | DELIMITED;
const MODEL_VERSION = (2 << 3) | DELIMITED;
const ID = (3 << 3) | DELIMITED;
const PARAMETERS = (4 << 3) | DELIMITED;
const OUTPUTS = (5 << 3) | DELIMITED;
const RAW_OUTPUT_CONTENTS = (6 << 3) | DELIMITED;
const ERROR_MESSAGE = (1 << 3) | DELIMITED;
const INFER_RESPONSE = (2 << 3) | DELIMITED;

interface PartsWriter extends ProtobufWriter {
  readonly parts: Uint8Array[];
  /** Up to here `out` is in `parts`. */
  cut: number;
}

/**
 * The message in parts: large tensors stand as they are in the response.
 * Throws INVALID_ARG where it is larger than gRPC takes.
 */
export function encodeGrpcResponse(response: InferResponse): readonly Uint8Array[] {
  const bytes = responseBytes(response);
  const writer = partsWriter(response, bytes);
  writeResponse(writer, response);
  return finish(writer);
}

/** The same within a ModelStreamInferResponse; `error` is its `error_message`, '' for none. */
export function encodeGrpcStreamResponse(response: InferResponse, error = ''): readonly Uint8Array[] {
  const inner = responseBytes(response);
  const writer = partsWriter(response, textBytes(error) + delimitedBytes(inner));
  writeText(writer, ERROR_MESSAGE, error);
  openDelimited(writer, INFER_RESPONSE, inner);
  writeResponse(writer, response);
  return finish(writer);
}

function partsWriter({ outputs }: InferResponse, bytes: number): PartsWriter {
  if (bytes > MESSAGE_BYTES_MAX) {
    const text = `Response has byte size ${bytes} which exceeds gRPC's byte size limit ${MESSAGE_BYTES_MAX}.`;
    throw new NereidError('INVALID_ARG', text);
  }
  let apart = 0;
  for (const { data } of outputs) if (data.byteLength > JOINED_BYTES_MAX) apart += data.byteLength;
  return { out: Buffer.allocUnsafe(bytes - apart), at: 0, parts: [], cut: 0 };
}

function finish({ out, parts, cut }: PartsWriter): readonly Uint8Array[] {
  if (cut < out.length) parts.push(out.subarray(cut));
  return parts;
}

function responseBytes(response: InferResponse): number {
  let bytes = textBytes(response.modelName) + textBytes(response.modelVersion) + textBytes(response.id);
  bytes += parametersBytes(response.parameters);
  for (const output of response.outputs) {
    bytes += delimitedBytes(outputBytes(output)) + delimitedBytes(output.data.byteLength);
  }
  return bytes;
}

function writeResponse(writer: PartsWriter, response: InferResponse): void {
  writeText(writer, MODEL_NAME, response.modelName);
  writeText(writer, MODEL_VERSION, response.modelVersion);
  writeText(writer, ID, response.id);
  writeParameters(writer, response.parameters);
  for (const output of response.outputs) {
    openDelimited(writer, OUTPUTS, outputBytes(output));
    writeOutput(writer, output);
  }
  for (const { data } of response.outputs) {
    openDelimited(writer, RAW_OUTPUT_CONTENTS, data.byteLength);
    if (data.byteLength <= JOINED_BYTES_MAX) {
      writer.out.set(data, writer.at);
      writer.at += data.byteLength;
    } else {
      writer.parts.push(writer.out.subarray(writer.cut, writer.at), data);
      writer.cut = writer.at;
    }
  }
}

const TENSOR_NAME = (1 << 3) | DELIMITED;
const TENSOR_DATATYPE = (2 << 3) | DELIMITED;
const TENSOR_SHAPE = (3 << 3) | DELIMITED;

function outputBytes({ name, datatype, shape }: Tensor): number {
  const dimensions = shapeBytes(shape);
  return textBytes(name) + textBytes(datatype) + (dimensions === 0 ? 0 : delimitedBytes(dimensions));
}

function shapeBytes(shape: readonly number[]): number {
  let bytes = 0;
  for (const dimension of shape) bytes += varintBytes(dimension);
  return bytes;
}

function writeOutput(writer: PartsWriter, { name, datatype, shape }: Tensor): void {
  writeText(writer, TENSOR_NAME, name);
  writeText(writer, TENSOR_DATATYPE, datatype);
  if (shape.length === 0) return;
  openDelimited(writer, TENSOR_SHAPE, shapeBytes(shape));
  for (const dimension of shape) writeVarint(writer, dimension);
}

const ENTRY_KEY = (1 << 3) | DELIMITED;
const ENTRY_VALUE = (2 << 3) | DELIMITED;
const BOOL_PARAM = (1 << 3) | VARINT;
const INT64_PARAM = (2 << 3) | VARINT;
const STRING_PARAM = (3 << 3) | DELIMITED;
const DOUBLE_PARAM = (4 << 3) | FIXED64;
const UINT64_PARAM = (5 << 3) | VARINT;

function parametersBytes(parameters: Parameters): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(parameters)) bytes += delimitedBytes(entryBytes(name, value));
  return bytes;
}

function writeParameters(writer: PartsWriter, parameters: Parameters): void {
  for (const [name, value] of Object.entries(parameters)) {
    openDelimited(writer, PARAMETERS, entryBytes(name, value));
    writeText(writer, ENTRY_KEY, name);
    openDelimited(writer, ENTRY_VALUE, parameterBytes(value));
    writeParameter(writer, value);
  }
}

function entryBytes(name: string, value: ParameterValue): number {
  return textBytes(name) + delimitedBytes(parameterBytes(value));
}

/** A member of a oneof is written also where it is empty. */
function parameterBytes(value: ParameterValue): number {
  switch (typeof value) {
    case 'boolean':
      return 2;
    case 'bigint':
      return 1 + integerBytes(BigInt.asUintN(64, value));
    case 'number':
      return 1 + FIXED64_BYTES;
    default:
      return delimitedBytes(Buffer.byteLength(value));
  }
}

function writeParameter(writer: PartsWriter, value: ParameterValue): void {
  switch (typeof value) {
    case 'boolean':
      writeByte(writer, BOOL_PARAM);
      writeByte(writer, value ? 1 : 0);
      break;
    case 'bigint':
      writeByte(writer, value > INT64_MAX ? UINT64_PARAM : INT64_PARAM);
      writeInteger(writer, value);
      break;
    case 'number':
      writeByte(writer, DOUBLE_PARAM);
      writeDouble(writer, value);
      break;
    default:
      if (value === '') openDelimited(writer, STRING_PARAM, 0);
      else writeText(writer, STRING_PARAM, value);
  }
}
