/**
 * First pass over a ModelInferRequest (grpc_service.proto): its members as they stand in the message.
 * Raw tensors and typed contents stay views. Of a member that comes again the last counts, and
 * sub-messages that come again are merged, as protobuf has it.
 */
import { NereidError } from './error.ts';
import {
  DELIMITED,
  FIXED64,
  FIXED64_BYTES,
  openSpan,
  type ProtobufReader,
  protobufReader,
  readBytes,
  readTag,
  readText,
  readVarint,
  signedInteger,
  signedNumber,
  skipField,
  take,
  unsignedInteger,
  VARINT,
} from './protobuf-reader.ts';
import { REQUEST_PARAMETERS_MAX, REQUEST_TENSORS_MAX, SHAPE_DIMENSIONS_MAX } from './protocol-limits.ts';

/** An InferParameter by the member that is set, `none` where no member is. */
export type GrpcParameter =
  | { readonly kind: 'none' }
  | { readonly kind: 'bool_param'; readonly value: boolean }
  | { readonly kind: 'int64_param'; readonly value: bigint }
  | { readonly kind: 'string_param'; readonly value: string }
  | { readonly kind: 'double_param'; readonly value: number }
  | { readonly kind: 'uint64_param'; readonly value: bigint };

export type GrpcParameters = ReadonlyMap<string, GrpcParameter>;

export interface GrpcTensor {
  name: string;
  datatype: string;
  /** Signed 64-bit; rounded beyond 2^53. */
  readonly shape: number[];
  parameters: GrpcParameters;
  /** The bodies of its InferTensorContents, one after the other; undefined where there is none. */
  contents: Uint8Array[] | undefined;
}

/** A requested output. */
export interface GrpcOutput {
  name: string;
  parameters: GrpcParameters;
}

export interface GrpcInferDocument {
  modelName: string;
  /** As the client wrote it: '' for the greatest ready one, else perhaps no number. */
  modelVersion: string;
  id: string;
  parameters: GrpcParameters;
  readonly inputs: GrpcTensor[];
  readonly outputs: GrpcOutput[];
  readonly rawInputContents: Uint8Array[];
}

const NO_PARAMETERS: GrpcParameters = new Map();
const NO_PARAMETER: GrpcParameter = { kind: 'none' };

const MODEL_NAME = (1 << 3) | DELIMITED;
const MODEL_VERSION = (2 << 3) | DELIMITED;
const ID = (3 << 3) | DELIMITED;
const PARAMETERS = (4 << 3) | DELIMITED;
const INPUTS = (5 << 3) | DELIMITED;
const OUTPUTS = (6 << 3) | DELIMITED;
const RAW_INPUT_CONTENTS = (7 << 3) | DELIMITED;

/** Throws INVALID_ARG for what is no such message, and for more entries than the limits allow. */
export function readGrpcInferDocument(message: Uint8Array): GrpcInferDocument {
  const reader = protobufReader(message);
  const document: GrpcInferDocument = {
    modelName: '',
    modelVersion: '',
    id: '',
    parameters: NO_PARAMETERS,
    inputs: [],
    outputs: [],
    rawInputContents: [],
  };
  while (reader.at < reader.end) {
    const tag = readTag(reader);
    switch (tag) {
      case MODEL_NAME:
        document.modelName = readText(reader);
        break;
      case MODEL_VERSION:
        document.modelVersion = readText(reader);
        break;
      case ID:
        document.id = readText(reader);
        break;
      case PARAMETERS:
        document.parameters = withParameter(reader, document.parameters);
        break;
      case INPUTS:
        checkEntries(document.inputs, 'inputs');
        document.inputs.push(readInput(reader));
        break;
      case OUTPUTS:
        checkEntries(document.outputs, 'outputs');
        document.outputs.push(readOutput(reader));
        break;
      case RAW_INPUT_CONTENTS:
        checkEntries(document.rawInputContents, 'raw_input_contents');
        document.rawInputContents.push(readBytes(reader));
        break;
      default:
        skipField(reader, tag);
    }
  }
  return document;
}

function checkEntries({ length }: readonly unknown[], member: string): void {
  if (length < REQUEST_TENSORS_MAX) return;
  throw new NereidError('INVALID_ARG', `'${member}' has more than ${REQUEST_TENSORS_MAX} entries`, { field: member });
}

const TENSOR_NAME = (1 << 3) | DELIMITED;
const TENSOR_DATATYPE = (2 << 3) | DELIMITED;
const TENSOR_SHAPE = (3 << 3) | VARINT;
const TENSOR_SHAPE_PACKED = (3 << 3) | DELIMITED;
const TENSOR_PARAMETERS = (4 << 3) | DELIMITED;
const TENSOR_CONTENTS = (5 << 3) | DELIMITED;

function readInput(reader: ProtobufReader): GrpcTensor {
  const outer = reader.end;
  reader.end = openSpan(reader);
  const tensor: GrpcTensor = { name: '', datatype: '', shape: [], parameters: NO_PARAMETERS, contents: undefined };
  while (reader.at < reader.end) {
    const tag = readTag(reader);
    switch (tag) {
      case TENSOR_NAME:
        tensor.name = readText(reader);
        break;
      case TENSOR_DATATYPE:
        tensor.datatype = readText(reader);
        break;
      case TENSOR_SHAPE:
        readDimension(reader, tensor.shape);
        break;
      case TENSOR_SHAPE_PACKED: {
        const end = openSpan(reader);
        const tensorEnd = reader.end;
        reader.end = end;
        while (reader.at < end) readDimension(reader, tensor.shape);
        reader.end = tensorEnd;
        break;
      }
      case TENSOR_PARAMETERS:
        tensor.parameters = withParameter(reader, tensor.parameters);
        break;
      case TENSOR_CONTENTS:
        tensor.contents ??= [];
        checkEntries(tensor.contents, 'contents');
        tensor.contents.push(readBytes(reader));
        break;
      default:
        skipField(reader, tag);
    }
  }
  reader.end = outer;
  return tensor;
}

function readDimension(reader: ProtobufReader, shape: number[]): void {
  if (shape.length === SHAPE_DIMENSIONS_MAX) {
    throw new NereidError('INVALID_ARG', `a shape has more than ${SHAPE_DIMENSIONS_MAX} dimensions`, {
      field: 'shape',
    });
  }
  readVarint(reader);
  shape.push(signedNumber(reader));
}

const OUTPUT_NAME = (1 << 3) | DELIMITED;
const OUTPUT_PARAMETERS = (2 << 3) | DELIMITED;

function readOutput(reader: ProtobufReader): GrpcOutput {
  const outer = reader.end;
  reader.end = openSpan(reader);
  const output: GrpcOutput = { name: '', parameters: NO_PARAMETERS };
  while (reader.at < reader.end) {
    const tag = readTag(reader);
    if (tag === OUTPUT_NAME) output.name = readText(reader);
    else if (tag === OUTPUT_PARAMETERS) output.parameters = withParameter(reader, output.parameters);
    else skipField(reader, tag);
  }
  reader.end = outer;
  return output;
}

const ENTRY_KEY = (1 << 3) | DELIMITED;
const ENTRY_VALUE = (2 << 3) | DELIMITED;

/** Reads a map's entry into `known`, or into a new map in place of the empty one that all share. */
function withParameter(reader: ProtobufReader, known: GrpcParameters): GrpcParameters {
  const outer = reader.end;
  reader.end = openSpan(reader);
  let key = '';
  let value = NO_PARAMETER;
  while (reader.at < reader.end) {
    const tag = readTag(reader);
    if (tag === ENTRY_KEY) key = readText(reader);
    else if (tag === ENTRY_VALUE) value = readParameter(reader, value);
    else skipField(reader, tag);
  }
  reader.end = outer;
  const parameters = known === NO_PARAMETERS ? new Map<string, GrpcParameter>() : (known as Map<string, GrpcParameter>);
  if (parameters.size === REQUEST_PARAMETERS_MAX && !parameters.has(key)) {
    throw new NereidError('INVALID_ARG', `'parameters' has more than ${REQUEST_PARAMETERS_MAX} entries`, {
      field: 'parameters',
    });
  }
  return parameters.set(key, value);
}

const BOOL_PARAM = (1 << 3) | VARINT;
const INT64_PARAM = (2 << 3) | VARINT;
const STRING_PARAM = (3 << 3) | DELIMITED;
const DOUBLE_PARAM = (4 << 3) | FIXED64;
const UINT64_PARAM = (5 << 3) | VARINT;

/** `before` is what the same value had already: only a member that is set replaces it. */
function readParameter(reader: ProtobufReader, before: GrpcParameter): GrpcParameter {
  const outer = reader.end;
  reader.end = openSpan(reader);
  let parameter = before;
  while (reader.at < reader.end) {
    const tag = readTag(reader);
    switch (tag) {
      case BOOL_PARAM:
        readVarint(reader);
        parameter = { kind: 'bool_param', value: reader.low !== 0 || reader.high !== 0 };
        break;
      case INT64_PARAM:
        readVarint(reader);
        parameter = { kind: 'int64_param', value: signedInteger(reader) };
        break;
      case STRING_PARAM:
        parameter = { kind: 'string_param', value: readText(reader) };
        break;
      case DOUBLE_PARAM:
        parameter = { kind: 'double_param', value: reader.bytes.readDoubleLE(take(reader, FIXED64_BYTES)) };
        break;
      case UINT64_PARAM:
        readVarint(reader);
        parameter = { kind: 'uint64_param', value: unsignedInteger(reader) };
        break;
      default:
        skipField(reader, tag);
    }
  }
  reader.end = outer;
  return parameter;
}
