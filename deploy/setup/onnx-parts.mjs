import { bytesField, integerField, stringField, writeFields } from './protobuf.mjs';

// Parts of an ONNX file (onnx.proto3) as bytes, to write a graph or to add to one. Each part is a message; the field
// numbers of those that hold it stand in FIELDS.

export const FLOAT = 1;
export const INT64 = 7;

/** Where parts go: GraphProto's fields, and ModelProto's graph. */
export const FIELDS = { node: 1, initializer: 5, input: 11, output: 12, graph: 7 };

const ATTRIBUTE_TYPE_INT = 2;
const ATTRIBUTE_TYPE_INTS = 7;

/**
 * NodeProto.
 *
 * @param {Record<string, number | number[]>} attributes an integer, or integers
 */
export function onnxNode(operator, inputs, outputs, attributes = {}) {
  return writeFields([
    ...inputs.map((name) => stringField(1, name)),
    ...outputs.map((name) => stringField(2, name)),
    stringField(3, `${operator}:${outputs[0]}`),
    stringField(4, operator),
    ...Object.entries(attributes).map(([name, value]) => bytesField(5, attribute(name, value))),
  ]);
}

function attribute(name, value) {
  if (Array.isArray(value)) {
    return writeFields([
      stringField(1, name),
      ...value.map((item) => integerField(8, item)),
      integerField(20, ATTRIBUTE_TYPE_INTS),
    ]);
  }
  return writeFields([stringField(1, name), integerField(3, value), integerField(20, ATTRIBUTE_TYPE_INT)]);
}

/**
 * TensorProto, a constant.
 *
 * @param {number[]} dims
 * @param {Float32Array | BigInt64Array} data row-major
 */
export function onnxTensor(name, dims, data) {
  return writeFields([
    ...dims.map((size) => integerField(1, size)),
    integerField(2, data instanceof BigInt64Array ? INT64 : FLOAT),
    stringField(8, name),
    bytesField(9, Buffer.from(data.buffer, data.byteOffset, data.byteLength)),
  ]);
}

/**
 * ValueInfoProto, an input or output of a graph.
 *
 * @param {number} type FLOAT or INT64
 * @param {(number | string)[]} dims a name where the size is open
 */
export function onnxValue(name, type, dims) {
  const dimensions = dims.map((size) =>
    bytesField(1, writeFields([typeof size === 'string' ? stringField(2, size) : integerField(1, size)])),
  );
  const tensorType = writeFields([integerField(1, type), bytesField(2, writeFields(dimensions))]);
  return writeFields([stringField(1, name), bytesField(2, writeFields([bytesField(1, tensorType)]))]);
}

/**
 * ModelProto, a whole file, of operator set 17.
 *
 * @param {{ name: string, nodes: Uint8Array[], initializers?: Uint8Array[], inputs: Uint8Array[], outputs: Uint8Array[] }} graph
 */
export function onnxModel({ name, nodes, initializers = [], inputs, outputs }) {
  const graph = writeFields([
    ...nodes.map((node) => bytesField(FIELDS.node, node)),
    stringField(2, name),
    ...initializers.map((tensor) => bytesField(FIELDS.initializer, tensor)),
    ...inputs.map((value) => bytesField(FIELDS.input, value)),
    ...outputs.map((value) => bytesField(FIELDS.output, value)),
  ]);
  const operatorSet = writeFields([stringField(1, ''), integerField(2, 17)]);
  return writeFields([
    integerField(1, 8),
    stringField(2, 'nereid'),
    bytesField(FIELDS.graph, graph),
    bytesField(8, operatorSet),
  ]);
}
