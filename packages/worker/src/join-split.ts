/** Joining the inputs of a batch's requests into one buffer, and splitting tensors by rows or shapes again. */
import type { JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { elementCount, type InferRequest, NereidError, type Tensor } from '@nereid/protocol';

/** Inputs begin at multiples of this, so that every datatype's array can view them. */
export const ALIGNMENT_BYTES = 8;
/** Bytes of the length before each element of a BYTES tensor. */
const ELEMENT_LENGTH_BYTES = 4;

/** One input over all requests of a batch, before its bytes are copied. */
export interface JoinedInput {
  /** Position among the signature's inputs. */
  readonly index: number;
  /** First dimension summed over the requests where the model batches; of a ragged input [elements]. */
  readonly shape: readonly number[];
  /** Of a ragged input: the shape of each request's own. */
  readonly shapes: readonly (readonly number[])[] | undefined;
  readonly byteLength: number;
  /** In the order of the requests. */
  readonly parts: readonly Uint8Array[];
}

export interface JoinedBatch {
  /** Rows of each request: its first dimension, or 1 where the model does not batch. */
  readonly rows: readonly number[];
  readonly inputs: readonly JoinedInput[];
}

/**
 * What a batch's inputs are when joined along the first dimension. The requests were checked at the
 * door and share all other dimensions (the scheduler's shape key); a batch that breaks this throws
 * INTERNAL, since no request of it is to blame.
 */
export function joinInputs(signature: ModelSignature, requests: readonly InferRequest[]): JoinedBatch {
  const batching = signature.maxBatchSize > 0;
  if (!batching && requests.length !== 1) {
    throw new NereidError(
      'INTERNAL',
      `model '${signature.name}' does not batch but got ${requests.length} requests at once`,
    );
  }
  const rows = requests.map((request) => (batching ? (request.inputs[0]?.shape[0] ?? 1) : 1));
  const inputs: JoinedInput[] = [];
  for (let index = 0; index < signature.inputs.length; index++) {
    const declared = signature.inputs[index];
    const name = declared?.name ?? '';
    const ragged = declared?.ragged === true;
    const first = inputNamed(requests[0], name, index);
    if (requests.length === 1 && !ragged) {
      if (first !== undefined) {
        const { shape, data } = first;
        inputs.push({ index, shape, shapes: undefined, byteLength: data.byteLength, parts: [data] });
      }
      continue;
    }
    const tensors = requests.map((request) => inputNamed(request, name, index));
    const joined = joinInput(index, tensors, ragged);
    if (joined === null) {
      throw new NereidError(
        'INTERNAL',
        `the requests of a batch for model '${signature.name}' differ in the shape of input '${name}'`,
      );
    }
    if (joined !== undefined) inputs.push(joined);
  }
  return { rows, inputs };
}

/** Clients mostly send inputs in the order of the config. */
function inputNamed(request: InferRequest | undefined, name: string, index: number): Tensor | undefined {
  const guess = request?.inputs[index];
  return guess?.name === name ? guess : request?.inputs.find((input) => input.name === name);
}

/**
 * undefined where no request has the input, null where they cannot be joined: those of a ragged one may differ in all but
 * their rank.
 */
function joinInput(
  index: number,
  tensors: readonly (Tensor | undefined)[],
  ragged: boolean,
): JoinedInput | null | undefined {
  const [first] = tensors;
  /** Rows, of a ragged input elements. */
  let total = 0;
  let byteLength = 0;
  const shapes: (readonly number[])[] = [];
  const parts: Uint8Array[] = [];
  for (const tensor of tensors) {
    if (tensor === undefined || first === undefined) {
      if (tensor !== first) return null;
      continue;
    }
    const { shape, data } = tensor;
    if (ragged ? shape.length !== first.shape.length : !sameRows(first.shape, shape)) return null;
    total += (ragged ? elementCount(shape) : shape[0]) ?? 0;
    byteLength += data.byteLength;
    shapes.push(shape);
    parts.push(data);
  }
  if (first === undefined) return undefined;
  return ragged
    ? { index, shape: [total], shapes, byteLength, parts }
    : { index, shape: [total, ...first.shape.slice(1)], shapes: undefined, byteLength, parts };
}

function sameRows(a: readonly number[], b: readonly number[]): boolean {
  return a.length > 0 && a.length === b.length && a.every((dim, axis) => axis === 0 || dim === b[axis]);
}

/**
 * A tensor's rows for each request, as views: the inverse of joining. `rows` are those of the
 * requests. Throws INTERNAL where the first dimension is not their sum or BYTES do not add up.
 */
export function splitRows(tensor: Tensor, rows: readonly number[]): Tensor[] {
  const { name, shape } = tensor;
  let total = 0;
  for (const count of rows) total += count;
  if (shape.length === 0 || shape[0] !== total) {
    throw new NereidError('INTERNAL', `tensor '${name}' has shape [${shape.join(',')}] for a batch of ${total} rows`);
  }
  const rest = shape.slice(1);
  return cut(
    tensor,
    rows.map((count) => [count, ...rest]),
  );
}

/**
 * Each request's part of a tensor: in its own shape where the tensor has shapes, else by rows; what is
 * one request's alone is all its. Throws as `splitRows`.
 */
export function splitTensor(tensor: JoinedTensor, rows: readonly number[]): Tensor[] {
  if (tensor.shapes !== undefined) return splitShapes(tensor, tensor.shapes);
  return rows.length === 1 ? [tensor] : splitRows(tensor, rows);
}

function splitShapes(tensor: Tensor, shapes: readonly (readonly number[])[]): Tensor[] {
  const [total = 0] = tensor.shape;
  const wanted = shapes.reduce((sum, shape) => sum + (elementCount(shape) ?? 0), 0);
  if (wanted !== total) {
    throw new NereidError('INTERNAL', `tensor '${tensor.name}' has ${total} elements for a batch of ${wanted}`);
  }
  return cut(tensor, shapes);
}

/** Parts of these shapes, one behind the other, which have all of the tensor's elements. */
function cut({ name, datatype, shape, data }: Tensor, shapes: readonly (readonly number[])[]): Tensor[] {
  const elementBytes = data.byteLength / (elementCount(shape) || 1);
  const view = datatype === 'BYTES' ? new DataView(data.buffer, data.byteOffset, data.byteLength) : null;
  let offset = 0;
  return shapes.map((own) => {
    const start = offset;
    const count = elementCount(own) ?? 0;
    offset = view === null ? start + count * elementBytes : skipElements(name, view, start, count);
    return { name, datatype, shape: own, data: data.subarray(start, offset) };
  });
}

/** The same with each part joined for a batch of that request alone. */
export function splitJoined(tensor: JoinedTensor, rows: readonly number[]): JoinedTensor[] {
  const parts = splitTensor(tensor, rows);
  return tensor.shapes === undefined ? parts : parts.map(alone);
}

function alone(part: Tensor): JoinedTensor {
  return { ...part, shape: [elementCount(part.shape) ?? 0], shapes: [part.shape] };
}

/**
 * Parts of equal rank, one behind the other: the inverse of cutting. They share all but the first
 * dimension, unless the tensor is to have `shapes`. There is at least one.
 */
export function joinTensors(parts: readonly Tensor[], ragged = false): JoinedTensor {
  const [first] = parts;
  if (first === undefined) throw new NereidError('INTERNAL', 'a tensor is to be joined of no parts');
  let total = 0;
  let bytes = 0;
  for (const { shape, data } of parts) {
    total += (ragged ? elementCount(shape) : shape[0]) ?? 0;
    bytes += data.byteLength;
  }
  const data = new Uint8Array(bytes);
  let offset = 0;
  for (const part of parts) {
    data.set(part.data, offset);
    offset += part.data.byteLength;
  }
  const { name, datatype } = first;
  return ragged
    ? { name, datatype, data, shape: [total], shapes: parts.map(({ shape }) => shape) }
    : { name, datatype, data, shape: [total, ...first.shape.slice(1)] };
}

function skipElements(name: string, view: DataView, start: number, count: number): number {
  let offset = start;
  for (let i = 0; i < count && offset <= view.byteLength; i++) {
    const fits = offset + ELEMENT_LENGTH_BYTES <= view.byteLength;
    offset += ELEMENT_LENGTH_BYTES + (fits ? view.getUint32(offset, true) : 0);
  }
  if (offset > view.byteLength)
    throw new NereidError('INTERNAL', `BYTES tensor '${name}' is shorter than its shape says`);
  return offset;
}

/** What one request asked for, or all: in the order of the config, as Triton answers (infer_response.cc). */
export function selectOutputs(
  signature: ModelSignature,
  requested: readonly string[],
  outputs: readonly Tensor[],
): readonly Tensor[] {
  const selected: Tensor[] = [];
  for (let i = 0; i < signature.outputs.length; i++) {
    const name = signature.outputs[i]?.name ?? '';
    if (requested.length > 0 && !requested.includes(name)) continue;
    const guess = outputs[i];
    const output = guess?.name === name ? guess : outputs.find((candidate) => candidate.name === name);
    if (output !== undefined) selected.push(output);
  }
  return selected;
}
