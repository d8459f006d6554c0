/** What a config needs to know of an ONNX file, read without its weights (onnx/onnx.proto). */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { NereidError } from '@nereid/protocol';
import { LIMITS } from './limits.ts';
import { bufferAccess, fileAccess, type RandomAccess, type SkimField, skimMessage } from './protobuf-skim.ts';

export interface OnnxTensor {
  readonly name: string;
  /** TensorProto.DataType; 0 where the value is no tensor. */
  readonly elementType: number;
  /** -1 for what is symbolic or unknown; null where the file gives no shape at all. */
  readonly dims: readonly number[] | null;
  /** Names of symbolic dimensions by position, '' for the others. */
  readonly symbols: readonly string[];
}

export interface OnnxGraph {
  readonly name: string;
  /** Inputs that a caller must give, in the file's order. */
  readonly inputs: readonly OnnxTensor[];
  /** Inputs with a default: an initializer of the same name. */
  readonly optionalInputs: readonly OnnxTensor[];
  readonly outputs: readonly OnnxTensor[];
  /** Version by operator set domain, '' for ONNX's own. */
  readonly opsets: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
}

const MODEL = { graph: 7, opsetImport: 8, metadataProps: 14 };
const GRAPH = { name: 2, initializer: 5, input: 11, output: 12, sparseInitializer: 15 };
const VALUE_INFO = { name: 1, type: 2 };
const TYPE = { tensorType: 1 };
const TENSOR_TYPE = { elementType: 1, shape: 2 };
const SHAPE = { dim: 1 };
const DIMENSION = { value: 1, symbol: 2 };
const TENSOR = { name: 8 };
const SPARSE_TENSOR = { values: 1 };
const OPSET = { domain: 1, version: 2 };
const STRING_ENTRY = { key: 1, value: 2 };

/** What stands in place of a large file that was not downloaded. */
const LFS_POINTER = 'version https://git-lfs';

/**
 * Reads the head of an ONNX file. Weights and nodes are skipped by seeking, so the cost is that of
 * the graph's names. Blocks on small reads. Throws INVALID_ARG naming the file where it cannot be
 * read, is no ONNX model or has a head over LIMITS.onnx_head_bytes_max.
 */
export function readOnnxFile(path: string): OnnxGraph {
  let fd: number | undefined;
  try {
    // Opening a pipe would wait for a writer otherwise.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const found = fstatSync(fd);
    if (!found.isFile()) throw new NereidError('INVALID_ARG', `'${path}' is not a regular file`);
    return skimModel(fileAccess(path, fd, found.size));
  } catch (error) {
    if (error instanceof NereidError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new NereidError('INVALID_ARG', `'${path}' cannot be read: ${reason}`, { cause: error });
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** The same of a model in memory; `name` stands for the file in errors. */
export function readOnnxBytes(bytes: Uint8Array, name: string): OnnxGraph {
  return skimModel(bufferAccess(name, bytes));
}

interface Head {
  name: string;
  graphs: number;
  readonly inputs: OnnxTensor[];
  readonly outputs: OnnxTensor[];
  readonly initializers: Set<string>;
  readonly opsets: Record<string, number>;
  readonly metadata: Record<string, string>;
}

function skimModel(source: RandomAccess): OnnxGraph {
  const start = Buffer.from(source.read(0, Math.min(LFS_POINTER.length, source.byteLength))).toString('latin1');
  if (start === LFS_POINTER) {
    const text = `'${source.name}' is a Git LFS pointer and not the model; run 'git lfs pull' in its repository`;
    throw new NereidError('INVALID_ARG', text);
  }
  const head: Head = {
    name: '',
    graphs: 0,
    inputs: [],
    outputs: [],
    initializers: new Set(),
    opsets: {},
    metadata: {},
  };
  const text = textReader(source);
  skimMessage(source, 0, source.byteLength, (field) => {
    if (field.number === MODEL.graph) skimGraph(source, text, expectBytes(source, field), head);
    if (field.number === MODEL.opsetImport) {
      const { words, numbers } = entry(source, text, expectBytes(source, field));
      head.opsets[words.get(OPSET.domain) ?? ''] = numbers.get(OPSET.version) ?? 0;
    }
    if (field.number === MODEL.metadataProps) {
      const { words } = entry(source, text, expectBytes(source, field));
      head.metadata[words.get(STRING_ENTRY.key) ?? ''] = words.get(STRING_ENTRY.value) ?? '';
    }
    return undefined;
  });
  if (head.graphs === 0) throw new NereidError('INVALID_ARG', `'${source.name}' is no ONNX model: it has no graph`);
  return {
    name: head.name,
    inputs: head.inputs.filter((input) => !head.initializers.has(input.name)),
    optionalInputs: head.inputs.filter((input) => head.initializers.has(input.name)),
    outputs: head.outputs,
    opsets: head.opsets,
    metadata: head.metadata,
  };
}

type Text = (field: SkimField) => string;

/** Reads names, and bounds what they take together. */
function textReader(source: RandomAccess): Text {
  let total = 0;
  return (field) => {
    const range = expectBytes(source, field);
    total += range.end - range.start;
    if (total > LIMITS.onnx_head_bytes_max) {
      const text = `the names of '${source.name}' take more than ${LIMITS.onnx_head_bytes_max} bytes`;
      throw new NereidError('INVALID_ARG', text);
    }
    return Buffer.from(source.read(range.start, range.end - range.start)).toString('utf8');
  };
}

function expectBytes(source: RandomAccess, field: SkimField): SkimField {
  if (field.wireType === 'bytes') return field;
  throw new NereidError('INVALID_ARG', `'${source.name}' is no ONNX model: field ${field.number} is no message`);
}

/** The text and number fields of a small message. */
function entry(source: RandomAccess, text: Text, range: SkimField) {
  const words = new Map<number, string>();
  const numbers = new Map<number, number>();
  skimMessage(source, range.start, range.end, (field) => {
    if (field.wireType === 'bytes') words.set(field.number, text(field));
    if (field.wireType === 'varint') numbers.set(field.number, field.value);
    return undefined;
  });
  return { words, numbers };
}

function skimGraph(source: RandomAccess, text: Text, range: SkimField, head: Head): void {
  head.graphs++;
  skimMessage(source, range.start, range.end, (field) => {
    if (field.number === GRAPH.name) head.name = text(field);
    if (field.number === GRAPH.input) head.inputs.push(valueInfo(source, text, expectBytes(source, field)));
    if (field.number === GRAPH.output) head.outputs.push(valueInfo(source, text, expectBytes(source, field)));
    if (field.number === GRAPH.initializer) {
      head.initializers.add(tensorName(source, text, expectBytes(source, field)));
    }
    if (field.number === GRAPH.sparseInitializer) {
      skimMessage(source, expectBytes(source, field).start, field.end, (part) => {
        if (part.number !== SPARSE_TENSOR.values) return undefined;
        head.initializers.add(tensorName(source, text, expectBytes(source, part)));
        return false;
      });
    }
    return undefined;
  });
}

/** The name comes before the raw data, which is thus never touched. */
function tensorName(source: RandomAccess, text: Text, range: SkimField): string {
  let name = '';
  skimMessage(source, range.start, range.end, (field) => {
    if (field.number !== TENSOR.name) return undefined;
    name = text(field);
    return false;
  });
  return name;
}

function valueInfo(source: RandomAccess, text: Text, range: SkimField): OnnxTensor {
  const info = { name: '', elementType: 0, dims: null as number[] | null, symbols: [] as string[] };
  const dimension = (part: SkimField) => {
    const { words, numbers } = entry(source, text, expectBytes(source, part));
    const value = numbers.get(DIMENSION.value) ?? -1;
    // A negative value comes as a number of at least 2^63; it means unknown.
    info.dims?.push(value >= 2 ** 63 ? -1 : value);
    info.symbols.push(words.get(DIMENSION.symbol) ?? '');
    return undefined;
  };
  const shape = (part: SkimField) => {
    info.dims ??= [];
    skimMessage(source, part.start, part.end, (dim) => (dim.number === SHAPE.dim ? dimension(dim) : undefined));
  };
  const tensorType = (part: SkimField) => {
    skimMessage(source, part.start, part.end, (field) => {
      if (field.number === TENSOR_TYPE.elementType) info.elementType = field.value;
      if (field.number === TENSOR_TYPE.shape) shape(expectBytes(source, field));
      return undefined;
    });
  };
  skimMessage(source, range.start, range.end, (field) => {
    if (field.number === VALUE_INFO.name) info.name = text(field);
    if (field.number === VALUE_INFO.type) {
      skimMessage(source, expectBytes(source, field).start, field.end, (type) => {
        if (type.number === TYPE.tensorType) tensorType(expectBytes(source, type));
        return undefined;
      });
    }
    return undefined;
  });
  return info;
}
