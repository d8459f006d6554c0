/**
 * Optional inputs of an ONNX graph. An input that also is an initializer has a default which a
 * feed may override, but onnxruntime-node neither lists such inputs nor looks at their feeds: it
 * would answer with the default, silently. So the initializer is taken out of the graph, which
 * makes a plain input of it, and its value is fed where a request leaves the input out.
 * Field numbers: onnx.proto (ModelProto.graph 7, GraphProto.initializer 5, TensorProto.name 8).
 */

const WIRE_VARINT = 0;
const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;
const WIRE_FIXED32 = 5;

const MODEL_IR_VERSION = 1;
const MODEL_GRAPH = 7;
const MODEL_OPSET_IMPORT = 8;
const OPSET_VERSION = 2;
const GRAPH_NAME = 2;
const GRAPH_INITIALIZER = 5;
const GRAPH_OUTPUT = 12;
const TENSOR_DATA_TYPE = 2;
const TENSOR_NAME = 8;
const VALUE_INFO_NAME = 1;
const VALUE_INFO_TYPE = 2;
const TYPE_TENSOR = 1;
const TYPE_TENSOR_ELEM = 1;

/** Old enough for every onnxruntime in use, new enough for every datatype. */
const DEFAULT_IR_VERSION = 8;
const DEFAULT_OPSET = 13;

interface Field {
  readonly number: number;
  readonly wire: number;
  /** The whole field with its tag. */
  readonly bytes: Uint8Array;
  /** Contents of a length-delimited field, else empty. */
  readonly value: Uint8Array;
  /** Value of a varint field, else 0. */
  readonly varint: number;
}

export interface OverridableInputs {
  /** The model without the initializers. */
  readonly model: Uint8Array;
  /** By input name: a model without inputs whose one output, of that name, is the default value. */
  readonly defaults: ReadonlyMap<string, Uint8Array>;
}

/** Takes the initializers of those names out of an ONNX model; names that are none are left out of `defaults`. */
export function takeOverridableInputs(model: Uint8Array, names: ReadonlySet<string>): OverridableInputs {
  const defaults = new Map<string, Uint8Array>();
  const modelParts: Uint8Array[] = [];
  for (const field of fields(model)) {
    if (field.number !== MODEL_GRAPH || field.wire !== WIRE_BYTES) {
      modelParts.push(field.bytes);
      continue;
    }
    const graphParts: Uint8Array[] = [];
    for (const part of fields(field.value)) {
      const tensor = part.number === GRAPH_INITIALIZER ? tensorHead(part.value) : undefined;
      if (tensor !== undefined && names.has(tensor.name)) {
        defaults.set(tensor.name, defaultModel(tensor.name, tensor.type, part.value));
      } else {
        graphParts.push(part.bytes);
      }
    }
    modelParts.push(message(MODEL_GRAPH, ...graphParts));
  }
  return { model: Buffer.concat(modelParts), defaults };
}

function tensorHead(tensor: Uint8Array): { readonly name: string; readonly type: number } {
  let name = '';
  let type = 0;
  for (const field of fields(tensor)) {
    if (field.number === TENSOR_NAME) name = Buffer.from(field.value).toString('utf8');
    if (field.number === TENSOR_DATA_TYPE) type = field.varint;
  }
  return { name, type };
}

function defaultModel(name: string, type: number, tensor: Uint8Array): Uint8Array {
  const text = Buffer.from(name, 'utf8');
  return Buffer.concat([
    number(MODEL_IR_VERSION, DEFAULT_IR_VERSION),
    message(MODEL_OPSET_IMPORT, number(OPSET_VERSION, DEFAULT_OPSET)),
    message(
      MODEL_GRAPH,
      message(GRAPH_NAME, Buffer.from('default')),
      message(GRAPH_INITIALIZER, tensor),
      message(
        GRAPH_OUTPUT,
        message(VALUE_INFO_NAME, text),
        message(VALUE_INFO_TYPE, message(TYPE_TENSOR, number(TYPE_TENSOR_ELEM, type))),
      ),
    ),
  ]);
}

function* fields(bytes: Uint8Array): Generator<Field> {
  let offset = 0;
  const varint = () => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[offset++];
      if (byte === undefined) throw new RangeError('an ONNX file ends in the middle of a field');
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  };
  while (offset < bytes.byteLength) {
    const start = offset;
    const tag = varint();
    const wire = tag & 7;
    let value = bytes.subarray(0, 0);
    let read = 0;
    if (wire === WIRE_VARINT) read = varint();
    else if (wire === WIRE_FIXED64) offset += 8;
    else if (wire === WIRE_FIXED32) offset += 4;
    else if (wire === WIRE_BYTES) {
      const size = varint();
      value = bytes.subarray(offset, offset + size);
      offset += size;
    } else throw new RangeError(`an ONNX file has wire type ${wire}`);
    if (offset > bytes.byteLength) throw new RangeError('an ONNX file ends in the middle of a field');
    yield { number: Math.floor(tag / 8), wire, bytes: bytes.subarray(start, offset), value, varint: read };
  }
}

function message(field: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0);
  return Buffer.concat([varintBytes(field * 8 + WIRE_BYTES), varintBytes(size), ...parts]);
}

function number(field: number, value: number): Uint8Array {
  return Buffer.concat([varintBytes(field * 8 + WIRE_VARINT), varintBytes(value)]);
}

function varintBytes(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}
