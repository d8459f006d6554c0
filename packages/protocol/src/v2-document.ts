/**
 * First pass over a v2 infer request's JSON: checks the whole text and keeps the members that the
 * protocol defines, without judging them, so that v2-request.ts can report mistakes in Triton's
 * order. Input data are read at once where what stands before them allows it, else their place is
 * kept. A name given twice in an object that the protocol defines is refused.
 */
import { DATATYPE_BYTES, isDatatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { type JsonCursor, jsonCursor, peek, syntaxError } from './json-cursor.ts';
import { type FastElements, readElementsFast } from './json-elements-fast.ts';
import {
  expectEnd,
  firstElement,
  firstKey,
  type JsonScalar,
  nextElement,
  nextKey,
  readScalar,
  skipValue,
} from './json-reader.ts';
import { JSON_MEMBERS_MAX, REQUEST_TENSORS_MAX, type RequestLimits, SHAPE_DIMENSIONS_MAX } from './protocol-limits.ts';
import { elementCount } from './tensor.ts';

/** An entry of `inputs` or `outputs`. undefined: not given. */
export interface RawTensor {
  name: JsonScalar | undefined;
  datatype: JsonScalar | undefined;
  shape: readonly JsonScalar[] | JsonScalar | undefined;
  /** What stands as `data` where that is no array. */
  data: JsonScalar | undefined;
  /** Place of the array in the text, 0 for none. */
  dataStart: number;
  dataEnd: number;
  /** The array's elements, where they could be read at once. */
  elements: Uint8Array | undefined;
  parameters: RawTensorParameters | undefined;
}

/** The parameters of a tensor that the protocol defines. */
export interface RawTensorParameters {
  binaryDataSize: JsonScalar | undefined;
  binaryData: JsonScalar | undefined;
  classification: JsonScalar | undefined;
  sharedMemoryRegion: JsonScalar | undefined;
  sharedMemoryOffset: JsonScalar | undefined;
  sharedMemoryByteSize: JsonScalar | undefined;
}

export type RawParameter = readonly [name: string, value: JsonScalar];

export interface RawRequest {
  id: JsonScalar | undefined;
  parameters: readonly RawParameter[] | JsonScalar | undefined;
  inputs: readonly RawTensor[] | JsonScalar | undefined;
  outputs: readonly RawTensor[] | JsonScalar | undefined;
}

const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

const TENSOR_PARAMETERS: ReadonlyMap<string, keyof RawTensorParameters> = new Map([
  ['binary_data_size', 'binaryDataSize'],
  ['binary_data', 'binaryData'],
  ['classification', 'classification'],
  ['shared_memory_region', 'sharedMemoryRegion'],
  ['shared_memory_offset', 'sharedMemoryOffset'],
  ['shared_memory_byte_size', 'sharedMemoryByteSize'],
]);

interface Reading {
  readonly cursor: JsonCursor;
  readonly limits: RequestLimits;
}

/** Reads the text. Throws INVALID_ARG for a syntax error, a repeated name and too deep nesting. */
export function readRequestDocument(document: Uint8Array, limits: RequestLimits): RawRequest {
  const cursor = jsonCursor(document);
  const raw: RawRequest = { id: undefined, parameters: undefined, inputs: undefined, outputs: undefined };
  if (peek(cursor) === OPEN_OBJECT) readMembers({ cursor, limits }, raw);
  else skipValue(cursor, limits.json_depth_max);
  expectEnd(cursor);
  return raw;
}

function readMembers(reading: Reading, raw: RawRequest): void {
  const { cursor, limits } = reading;
  let others: Set<string> | undefined;
  for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
    switch (key) {
      case 'id':
        once(cursor, raw.id, key);
        raw.id = readScalar(cursor, limits.json_depth_max);
        break;
      case 'parameters':
        once(cursor, raw.parameters, key);
        raw.parameters = readParameters(reading);
        break;
      case 'inputs':
        once(cursor, raw.inputs, key);
        raw.inputs = readTensors(reading, key);
        break;
      case 'outputs':
        once(cursor, raw.outputs, key);
        raw.outputs = readTensors(reading, key);
        break;
      default:
        others = addName(cursor, others, key);
        skipValue(cursor, limits.json_depth_max);
    }
  }
}

/** Refuses the second of two members with this name. */
function once(cursor: JsonCursor, earlier: unknown, key: string): void {
  if (earlier !== undefined) throw repeated(cursor, key);
}

/** The names of members that the protocol does not define, so that none comes twice. Throws INVALID_ARG where one does. */
export function addName(cursor: JsonCursor, names: Set<string> | undefined, key: string): Set<string> {
  if (names === undefined) return new Set([key]);
  if (names.has(key)) throw repeated(cursor, key);
  if (names.size === JSON_MEMBERS_MAX) {
    throw syntaxError(`More than ${JSON_MEMBERS_MAX} members in one object.`, cursor.position);
  }
  return names.add(key);
}

function repeated(cursor: JsonCursor, key: string): NereidError {
  return syntaxError(`Object member '${key}' is given twice.`, cursor.position);
}

function readParameters(reading: Reading): readonly RawParameter[] | JsonScalar {
  const { cursor, limits } = reading;
  if (peek(cursor) !== OPEN_OBJECT) return readScalar(cursor, limits.json_depth_max);
  const parameters: RawParameter[] = [];
  let names: Set<string> | undefined;
  for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
    names = addName(cursor, names, key);
    parameters.push([key, readScalar(cursor, limits.json_depth_max)]);
  }
  return parameters;
}

function readTensors(reading: Reading, member: string): readonly RawTensor[] | JsonScalar {
  const { cursor, limits } = reading;
  if (peek(cursor) !== OPEN_ARRAY) return readScalar(cursor, limits.json_depth_max);
  const tensors: RawTensor[] = [];
  for (let more = firstElement(cursor); more; more = nextElement(cursor)) {
    if (tensors.length === REQUEST_TENSORS_MAX) {
      throw new NereidError('INVALID_ARG', `Unable to parse '${member}': more than ${REQUEST_TENSORS_MAX} entries`, {
        field: member,
      });
    }
    tensors.push(readTensor(reading, member === 'inputs'));
  }
  return tensors;
}

/** An entry that is no object reads as one without members, which is what Triton makes of it. */
function readTensor(reading: Reading, input: boolean): RawTensor {
  const { cursor, limits } = reading;
  const tensor: RawTensor = {
    name: undefined,
    datatype: undefined,
    shape: undefined,
    data: undefined,
    dataStart: 0,
    dataEnd: 0,
    elements: undefined,
    parameters: undefined,
  };
  if (peek(cursor) !== OPEN_OBJECT) {
    skipValue(cursor, limits.json_depth_max);
    return tensor;
  }
  let others: Set<string> | undefined;
  let parametersSeen: true | undefined;
  for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
    switch (key) {
      case 'name':
        once(cursor, tensor.name, key);
        tensor.name = readScalar(cursor, limits.json_depth_max);
        break;
      case 'datatype':
        once(cursor, tensor.datatype, key);
        tensor.datatype = readScalar(cursor, limits.json_depth_max);
        break;
      case 'shape':
        once(cursor, tensor.shape, key);
        tensor.shape = readShape(reading);
        break;
      case 'data':
        once(cursor, tensor.dataStart > 0 ? true : tensor.data, key);
        if (input) readData(reading, tensor);
        else skipValue(cursor, limits.json_depth_max);
        break;
      case 'parameters':
        once(cursor, parametersSeen, key);
        parametersSeen = true;
        tensor.parameters = readTensorParameters(reading);
        break;
      default:
        others = addName(cursor, others, key);
        skipValue(cursor, limits.json_depth_max);
    }
  }
  return tensor;
}

function readShape(reading: Reading): readonly JsonScalar[] | JsonScalar {
  const { cursor, limits } = reading;
  if (peek(cursor) !== OPEN_ARRAY) return readScalar(cursor, limits.json_depth_max);
  const shape: JsonScalar[] = [];
  for (let more = firstElement(cursor); more; more = nextElement(cursor)) {
    if (shape.length === SHAPE_DIMENSIONS_MAX) {
      throw new NereidError('INVALID_ARG', `Unable to parse 'shape': more than ${SHAPE_DIMENSIONS_MAX} dimensions`, {
        field: 'shape',
      });
    }
    const dimension = readScalar(cursor, limits.json_depth_max);
    // No -0 among the dimensions.
    shape.push(dimension === 0 ? 0 : dimension);
  }
  return shape;
}

function readData(reading: Reading, tensor: RawTensor): void {
  const { cursor, limits } = reading;
  if (peek(cursor) !== OPEN_ARRAY) {
    tensor.data = readScalar(cursor, limits.json_depth_max);
    return;
  }
  tensor.dataStart = cursor.position;
  const fast = readKnownElements(cursor, tensor, limits);
  if (fast === undefined) {
    skipValue(cursor, limits.json_depth_max);
  } else {
    tensor.elements = fast.data;
    cursor.position = fast.end;
  }
  tensor.dataEnd = cursor.position;
}

/** The elements, where datatype and shape stand before them and are good and in bounds. */
function readKnownElements(cursor: JsonCursor, tensor: RawTensor, limits: RequestLimits): FastElements | undefined {
  const { datatype, shape } = tensor;
  if (!isDatatype(datatype) || !Array.isArray(shape) || !isShape(shape)) return undefined;
  const count = elementCount(shape) ?? 0;
  if (count === 0 || count > limits.elements_max || count * DATATYPE_BYTES[datatype] > limits.bytes_max)
    return undefined;
  return readElementsFast(cursor.bytes, cursor.position, datatype, count, limits.json_depth_max);
}

/** True for dimensions: integers from 0 that are safe. */
export function isShape(shape: readonly JsonScalar[]): shape is readonly number[] {
  for (const dimension of shape) {
    if (typeof dimension !== 'number' || dimension < 0) return false;
  }
  return true;
}

function readTensorParameters(reading: Reading): RawTensorParameters | undefined {
  const { cursor, limits } = reading;
  if (peek(cursor) !== OPEN_OBJECT) {
    skipValue(cursor, limits.json_depth_max);
    return undefined;
  }
  const parameters: RawTensorParameters = {
    binaryDataSize: undefined,
    binaryData: undefined,
    classification: undefined,
    sharedMemoryRegion: undefined,
    sharedMemoryOffset: undefined,
    sharedMemoryByteSize: undefined,
  };
  let others: Set<string> | undefined;
  for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
    const member = TENSOR_PARAMETERS.get(key);
    if (member === undefined) {
      others = addName(cursor, others, key);
      skipValue(cursor, limits.json_depth_max);
    } else {
      once(cursor, parameters[member], key);
      parameters[member] = readScalar(cursor, limits.json_depth_max);
    }
  }
  return parameters;
}
