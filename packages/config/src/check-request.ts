/**
 * Request validation against a model's signature, in the order and with the texts of Triton's
 * InferenceRequest::Normalize (core/src/infer_request.cc).
 */
import {
  type CarriedRequest,
  type CarriedTensor,
  CORRELATION_ID_BYTES_MAX,
  CORRELATION_ID_TOO_LONG,
  ELEMENT_LENGTH_BYTES,
  type ErrorInfo,
  fixedByteSize,
  INT64_MAX,
  isBlobTensor,
  STEP_NEEDS_ID,
  sequenceNeedsId,
  sequenceOneRow,
  type Tensor,
  withRequestId,
} from '@nereid/protocol';
import type { InputSignature, ModelSignature } from './model-signature.ts';
import type { SequenceSignature } from './sequence-signature.ts';

/** Up to so many inputs duplicates are found by comparing pairs, which allocates nothing. */
const PAIRWISE_INPUTS_MAX = 16;

const BATCH_NOTE =
  'NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each ' +
  'input shape. If you want to specify the full shape including the batch dim in your input dims config, try ' +
  'setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.';

/**
 * The first thing wrong with a request, or null. Needs nothing but the signature, so it runs at the
 * door; a good request costs no allocation. Beyond Triton's checks it refuses a batch dimension of
 * zero, a missing required input that an optional one's presence hides, and a BYTES element longer
 * than its tensor. Of a tensor whose data are elsewhere the elements are not looked at. What only the sequence batcher asks comes last, as there.
 */
export function checkRequest(signature: ModelSignature, request: CarriedRequest): ErrorInfo | null {
  return (
    wrongId(request) ??
    duplicateInput(request) ??
    unknownOutput(signature, request) ??
    wrongInputs(signature, request) ??
    wrongBatch(signature, request) ??
    wrongTensor(signature, request) ??
    (signature.sequence === undefined ? null : wrongStep(signature, signature.sequence, request))
  );
}

function failure(request: CarriedRequest | null, field: string, text: string): ErrorInfo {
  const error: ErrorInfo = { code: 'INVALID_ARG', message: text, field };
  return request === null ? error : withRequestId(request, error);
}

function wrongId({ correlationId: id, sequenceStep }: CarriedRequest): ErrorInfo | null {
  if (sequenceStep !== undefined && (id === 0n || id === '')) return STEP_NEEDS_ID;
  return typeof id === 'string' && Buffer.byteLength(id) > CORRELATION_ID_BYTES_MAX ? CORRELATION_ID_TOO_LONG : null;
}

/** What the sequence batcher asks of a request beyond its tensors (sequence_batch_scheduler.cc), in its order. */
function wrongStep(
  { name, maxBatchSize }: ModelSignature,
  { iterative }: SequenceSignature,
  { correlationId: id, inputs }: CarriedRequest,
): ErrorInfo | null {
  if (maxBatchSize > 0 && (inputs[0]?.shape[0] ?? 1) > 1) return sequenceOneRow(name);
  return !iterative && (id === 0n || id === '') ? sequenceNeedsId(name) : null;
}

function duplicateInput(request: CarriedRequest): ErrorInfo | null {
  const { inputs } = request;
  const seen = inputs.length > PAIRWISE_INPUTS_MAX ? new Set<string>() : null;
  for (let i = 1; i < inputs.length; i++) {
    const name = inputs[i]?.name ?? '';
    let twice = false;
    if (seen === null) {
      for (let j = 0; j < i && !twice; j++) twice = inputs[j]?.name === name;
    } else {
      seen.add(inputs[i - 1]?.name ?? '');
      twice = seen.has(name);
    }
    if (twice) return failure(request, `inputs[${i}].name`, `input '${name}' already exists in request`);
  }
  return null;
}

function unknownOutput(signature: ModelSignature, request: CarriedRequest): ErrorInfo | null {
  for (let i = 0; i < request.requestedOutputs.length; i++) {
    const name = request.requestedOutputs[i] ?? '';
    let known = false;
    for (const output of signature.outputs) if (output.name === name) known = true;
    if (!known) {
      // Triton's text has no request id here.
      return failure(null, `outputs[${i}].name`, `unexpected inference output '${name}' for model '${signature.name}'`);
    }
  }
  return null;
}

/** The input of that name; `likely` is where it stands if the client keeps the config's order. */
function inputNamed(signature: ModelSignature, name: string, likely: number): InputSignature | undefined {
  const guess = signature.inputs[likely];
  if (guess !== undefined && guess.name === name) return guess;
  for (const input of signature.inputs) if (input.name === name) return input;
  return undefined;
}

function wrongInputs(signature: ModelSignature, request: CarriedRequest): ErrorInfo | null {
  let required = 0;
  for (const input of signature.inputs) if (!input.optional) required++;
  const { inputs } = request;
  if (inputs.length > signature.inputs.length || inputs.length < required) {
    return wrongInputCount(signature, request, required);
  }
  let requiredGiven = 0;
  for (let i = 0; i < inputs.length; i++) {
    const name = inputs[i]?.name ?? '';
    const input = inputNamed(signature, name, i);
    if (input === undefined) {
      // Triton's text has no request id here.
      return failure(null, `inputs[${i}].name`, `unexpected inference input '${name}' for model '${signature.name}'`);
    }
    if (!input.optional) requiredGiven++;
  }
  return requiredGiven < required ? wrongInputCount(signature, request, required) : null;
}

function wrongInputCount(signature: ModelSignature, request: CarriedRequest, required: number): ErrorInfo {
  const given = request.inputs.map((input) => input.name);
  const missing = signature.inputs.filter((input) => !input.optional && !given.includes(input.name));
  const quoted = (names: readonly string[]) => `[${names.map((name) => `'${name}'`).join(',')}]`;
  const wanted = signature.inputs.length;
  const expected =
    required === wanted
      ? `expected ${wanted} inputs but got ${given.length} inputs`
      : `expected number of inputs between ${required} and ${wanted} but got ${given.length} inputs`;
  const text =
    `${expected} for model '${signature.name}'. Got input(s) ${quoted(given)}, but missing required input(s) ` +
    `${quoted(missing.map((input) => input.name))}. Please provide all required input(s).`;
  return failure(request, 'inputs', text);
}

function wrongBatch(signature: ModelSignature, request: CarriedRequest): ErrorInfo | null {
  if (signature.maxBatchSize === 0) return null;
  const { inputs } = request;
  let rows: number | undefined;
  for (let i = 0; i < inputs.length; i++) {
    const first = inputs[i]?.shape[0];
    if (first === undefined) {
      const text = `input '${inputs[i]?.name}' has no shape but model requires batch dimension for '${signature.name}'`;
      return failure(request, `inputs[${i}].shape`, text);
    }
    rows ??= first;
    if (first !== rows) {
      const text = `input '${inputs[i]?.name}' batch size does not match other inputs for '${signature.name}'`;
      return failure(request, `inputs[${i}].shape`, text);
    }
  }
  if (rows !== undefined && rows > signature.maxBatchSize) {
    const text = `inference request batch-size must be <= ${signature.maxBatchSize} for '${signature.name}'`;
    return failure(request, 'inputs[0].shape', text);
  }
  return null;
}

function wrongTensor(signature: ModelSignature, request: CarriedRequest): ErrorInfo | null {
  const { inputs } = request;
  for (let i = 0; i < inputs.length; i++) {
    const tensor = inputs[i];
    const input = tensor === undefined ? undefined : inputNamed(signature, tensor.name, i);
    if (tensor === undefined || input === undefined) continue;
    if (tensor.datatype !== input.datatype) {
      const text =
        `inference input '${input.name}' data-type is '${tensor.datatype}', ` +
        `but model '${signature.name}' expects '${input.datatype}'`;
      return failure(request, `inputs[${i}].datatype`, text);
    }
    const wrong =
      wrongShape(signature, request, input, tensor, i) ??
      (tensor.datatype !== 'BYTES'
        ? wrongByteSize(signature, request, tensor, i)
        : isBlobTensor(tensor)
          ? null
          : wrongElements(signature, request, tensor, i));
    if (wrong !== null) return wrong;
  }
  if (signature.maxBatchSize > 0 && inputs[0]?.shape[0] === 0) {
    const text = `inference request batch-size must be >= 1 for '${signature.name}'`;
    return failure(request, 'inputs[0].shape', text);
  }
  return null;
}

function wrongShape(
  signature: ModelSignature,
  request: CarriedRequest,
  input: InputSignature,
  tensor: CarriedTensor,
  index: number,
): ErrorInfo | null {
  const skip = signature.maxBatchSize > 0 ? 1 : 0;
  const { shape } = tensor;
  const where = `for input '${input.name}' for model '${signature.name}'`;
  let match = shape.length === input.dims.length + skip;
  for (let i = 0; match && i < shape.length; i++) {
    const size = shape[i] ?? 0;
    if (size < 0) {
      const text = `All input dimensions should be specified ${where}, got [${shape.join(',')}]`;
      return failure(request, `inputs[${index}].shape`, text);
    }
    const dim = i < skip ? -1 : (input.dims[i - skip] ?? -1);
    match = dim === -1 || dim === size;
  }
  if (match) return null;
  const dims = skip === 1 ? [-1, ...input.dims] : input.dims;
  const text = `unexpected shape ${where}. Expected [${dims.join(',')}], got [${shape.join(',')}]. `;
  return failure(request, `inputs[${index}].shape`, text + (skip === 1 ? BATCH_NOTE : ''));
}

function wrongByteSize(
  signature: ModelSignature,
  request: CarriedRequest,
  tensor: CarriedTensor,
  index: number,
): ErrorInfo | null {
  // A batch dimension of zero is left out by Triton, so "Expected 64, got 0" is the size of one row.
  const batchOfZero = signature.maxBatchSize > 0 && tensor.shape[0] === 0;
  const bytes = isBlobTensor(tensor) ? tensor.blob.bytes : tensor.data.byteLength;
  if (!batchOfZero && fixedByteSize(tensor.datatype, tensor.shape) === bytes) return null;
  const expected = exactCount(tensor, batchOfZero) * BigInt(fixedByteSize(tensor.datatype, []) ?? 0);
  if (expected > INT64_MAX) {
    const text = `byte size for tensor '${tensor.name}' exceeds maximum size of ${INT64_MAX}`;
    return failure(null, `inputs[${index}].shape`, text);
  }
  if (expected === BigInt(bytes)) return null;
  const text =
    `input byte size mismatch for input '${tensor.name}' for model '${signature.name}'. ` +
    `Expected ${expected}, got ${bytes}`;
  return failure(request, `inputs[${index}].data`, text);
}

function exactCount(tensor: CarriedTensor, batchOfZero: boolean): bigint {
  const dims = batchOfZero ? tensor.shape.slice(1) : tensor.shape;
  return dims.reduce((count, dim) => count * BigInt(dim), 1n);
}

/** Element count and the length before each element. */
function wrongElements(
  signature: ModelSignature,
  request: CarriedRequest,
  tensor: Tensor,
  index: number,
): ErrorInfo | null {
  const batchOfZero = signature.maxBatchSize > 0 && tensor.shape[0] === 0;
  const { data, shape } = tensor;
  let count = 1;
  for (let i = batchOfZero ? 1 : 0; i < shape.length; i++) count *= shape[i] ?? 0;
  if (!Number.isSafeInteger(count)) {
    const exact = exactCount(tensor, batchOfZero);
    if (exact > INT64_MAX) {
      const text = `element count for tensor '${tensor.name}' exceeds maximum size of ${INT64_MAX}`;
      return failure(null, `inputs[${index}].shape`, text);
    }
  }
  const field = `inputs[${index}].data`;
  const where = `for inference input '${tensor.name}' for model '${signature.name}'`;
  let found = 0;
  let at = 0;
  while (at < data.byteLength) {
    const left = data.byteLength - at;
    if (left < ELEMENT_LENGTH_BYTES) {
      const text =
        `incomplete string length indicator ${where}, expecting ${ELEMENT_LENGTH_BYTES} bytes but only ${left} ` +
        'bytes available. Please make sure the string length indicator is in one buffer.';
      return failure(request, field, text);
    }
    const low = (data[at] ?? 0) + (data[at + 1] ?? 0) * 0x100;
    const length = low + (data[at + 2] ?? 0) * 0x10000 + (data[at + 3] ?? 0) * 0x1000000;
    found++;
    if (found > count) {
      return failure(request, field, `unexpected number of string elements ${found} ${where}, expecting ${count}`);
    }
    at += ELEMENT_LENGTH_BYTES;
    if (length > data.byteLength - at) {
      // Found by Triton's backends (backend_common.cc), whose text has neither request id nor model.
      const text =
        `incomplete string data for inference input '${tensor.name}', expecting string of length ${length} ` +
        `but only ${data.byteLength - at} bytes available`;
      return failure(null, field, text);
    }
    at += length;
  }
  if (found === count) return null;
  return failure(request, field, `expected ${exactCount(tensor, batchOfZero)} string elements ${where}, got ${found}`);
}
