/**
 * Second pass over a v2 infer request: from the members that v2-document.ts kept to an InferRequest,
 * with the mistakes in the order in which Triton finds them (http_server.cc: EVBufferToInput: id,
 * parameters, inputs one by one, what is left of the body, outputs).
 */
import { isDatatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { type InferRequest, withOwnParameters } from './infer.ts';
import { readElements } from './json-elements.ts';
import { checkJsonInput, type JsonInput } from './json-input.ts';
import type { JsonScalar } from './json-reader.ts';
import { ownText } from './own-text.ts';
import type { RequestLimits } from './protocol-limits.ts';
import { bodyTooLarge } from './request-error.ts';
import { requestedNames } from './requested-names.ts';
import { elementCount, type Tensor } from './tensor.ts';
import { isShape, type RawRequest, type RawTensor, readRequestDocument } from './v2-document.ts';
import { missingMember, shapeOverflow, textMember, unsignedMember, wrongKind } from './v2-member.ts';
import { type RequestedOutput, readOutputs } from './v2-outputs.ts';
import { requestParameters, unsigned } from './v2-parameters.ts';
import { addSharedBytes, type ReadSharedMemory, sharedMemoryPlace, unknownRegion } from './v2-shared-memory.ts';

export interface DecodeOptions {
  readonly modelName: string;
  /** '' for the greatest ready one. */
  readonly modelVersion: string;
  /** `Inference-Header-Content-Length`; undefined where the whole body is JSON. */
  readonly headerLength?: number | undefined;
  readonly limits: RequestLimits;
  /** Reads inputs that lie in shared memory. Without it every region is unknown, also of outputs. */
  readonly readSharedMemory?: ReadSharedMemory | undefined;
}

export interface DecodedRequest {
  readonly request: InferRequest;
  /** The outputs that the client listed, in its order, repeated ones too. */
  readonly outputs: readonly RequestedOutput[];
  /** Form of the outputs where none is listed: true for binary. */
  readonly binaryDefault: boolean;
}

/**
 * Decodes the body of an infer request: JSON, and behind it the raw bytes of binary inputs. Input
 * data that came as bytes are views on `body`; the caller must leave it as it is.
 * Throws INVALID_ARG with Triton's text and the field at fault, and NOT_FOUND for a shared memory
 * region. What needs the model's config (names, datatypes, byte sizes) is not checked here.
 */
export function decodeInferRequest(body: Uint8Array, options: DecodeOptions): DecodedRequest {
  const { headerLength = body.byteLength, limits } = options;
  const document = requestDocument(body, options.headerLength, limits);
  const raw = readRequestDocument(document, limits);
  if (raw.id !== undefined && typeof raw.id !== 'string') throw wrongKind('id', 'id', 'JSON non-string as string');
  const parameters = requestParameters(raw.parameters);
  const inputs = readInputs({ body, document, position: headerLength, elements: 0, sharedBytes: 0, options }, raw);
  const outputs = readOutputs(raw.outputs, options.readSharedMemory !== undefined);
  const { sequenceStep, journal } = parameters;
  const request = {
    modelName: options.modelName,
    modelVersion: options.modelVersion,
    id: ownText(raw.id ?? ''),
    correlationId: parameters.correlationId,
    sequenceStart: parameters.sequenceStart,
    sequenceEnd: parameters.sequenceEnd,
    priority: parameters.priority,
    timeoutUs: parameters.timeoutUs,
    parameters: parameters.custom,
    inputs,
    requestedOutputs: requestedNames(outputs),
  };
  return {
    request: withOwnParameters(request, sequenceStep, journal),
    outputs,
    binaryDefault: parameters.binaryDataOutput,
  };
}

/** The JSON part of the body. */
function requestDocument(body: Uint8Array, headerLength: number | undefined, limits: RequestLimits): Uint8Array {
  const size = headerLength ?? body.byteLength;
  if (headerLength === 0) {
    throw new NereidError('INTERNAL', 'a raw binary request has no JSON to decode');
  }
  if (!Number.isSafeInteger(size) || size < 0 || size > body.byteLength) {
    throw new NereidError(
      'INVALID_ARG',
      `inference header size should be in range (0, ${body.byteLength}), got: ${size}`,
      { field: 'Inference-Header-Content-Length' },
    );
  }
  if (size > limits.bytes_max) {
    const { code, message, ...detail } = bodyTooLarge(size, limits.bytes_max);
    throw new NereidError(code, message, detail);
  }
  return new Uint8Array(body.buffer, body.byteOffset, size);
}

/** What the inputs before have used up. */
interface Progress {
  readonly body: Uint8Array;
  readonly document: Uint8Array;
  /** Where the next binary input begins in the body. */
  position: number;
  /** JSON elements so far. */
  elements: number;
  /** Bytes from shared memory so far. */
  sharedBytes: number;
  readonly options: DecodeOptions;
}

function readInputs(progress: Progress, raw: RawRequest): readonly Tensor[] {
  if (raw.inputs === undefined) throw missingMember('inputs', '');
  if (!Array.isArray(raw.inputs)) throw wrongKind('inputs', 'inputs', 'JSON non-array as array');
  const inputs: Tensor[] = [];
  for (const input of raw.inputs as readonly RawTensor[]) {
    inputs.push(readInput(progress, input, `inputs[${inputs.length}]`));
  }
  if (progress.position !== progress.body.byteLength) {
    throw new NereidError('INVALID_ARG', `unexpected additional input data for model '${progress.options.modelName}'`, {
      field: 'inputs',
    });
  }
  return inputs;
}

function readInput(progress: Progress, raw: RawTensor, field: string): Tensor {
  const form = inputForm(raw, field);
  const name = textMember(raw.name, 'name', field);
  const datatype = textMember(raw.datatype, 'datatype', field);
  const shape = readShape(raw.shape, name, field);
  const shared = form === 'shared memory' ? sharedData(progress, raw, field) : undefined;
  if (form === 'data' && raw.dataStart === 0) throw wrongKind('data', `${field}.data`, 'JSON non-array as array');
  if (!isDatatype(datatype)) {
    throw new NereidError('INVALID_ARG', `invalid datatype for input ${name}`, { field: `${field}.datatype` });
  }
  const data =
    shared ??
    (form === 'binary'
      ? binaryData(progress, raw, name, field)
      : jsonData(progress, raw, { name, datatype, shape, field: `${field}.data` }));
  return { name, datatype, shape, data };
}

function sharedData(progress: Progress, { parameters }: RawTensor, field: string): Uint8Array | undefined {
  if (parameters === undefined) return undefined;
  const { region, offset, byteSize } = sharedMemoryPlace(parameters, field);
  const { readSharedMemory } = progress.options;
  if (readSharedMemory === undefined) throw unknownRegion(region, field);
  progress.sharedBytes = addSharedBytes(progress.sharedBytes, byteSize, field);
  return readSharedMemory(region, offset, byteSize, field);
}

/** Which one of its three forms the input's data has (ValidateInputContentType). */
function inputForm(raw: RawTensor, field: string): 'data' | 'binary' | 'shared memory' {
  const data = raw.dataStart > 0 || raw.data !== undefined;
  const binary = raw.parameters?.binaryDataSize !== undefined;
  const shared = raw.parameters?.sharedMemoryRegion !== undefined;
  if (Number(data) + Number(binary) + Number(shared) === 1) {
    return data ? 'data' : binary ? 'binary' : 'shared memory';
  }
  const set = [
    data ? " 'data'" : '',
    binary ? " 'binary_data_size'" : '',
    shared ? " 'shared_memory_region'" : '',
  ].join('');
  throw new NereidError(
    'INVALID_ARG',
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
      `'shared_memory_region' in 'parameters'. But${set === '' ? ' no field is set' : ` set${set}`}`,
    { field },
  );
}

function readShape(shape: RawTensor['shape'], name: string, field: string): readonly number[] {
  if (shape === undefined) throw missingMember('shape', field);
  if (!Array.isArray(shape)) throw wrongKind('shape', `${field}.shape`, 'JSON non-array as array');
  const dimensions = shape as readonly JsonScalar[];
  const safe = isShape(dimensions);
  if (!safe && dimensions.some((dimension) => unsigned(dimension) === undefined)) {
    throw wrongKind('shape', `${field}.shape`, 'JSON non-unsigned-integer as unsigned-integer');
  }
  if (safe && elementCount(dimensions) !== undefined) return dimensions;
  throw shapeOverflow(name, dimensions, `${field}.shape`);
}

function binaryData(progress: Progress, raw: RawTensor, name: string, field: string): Uint8Array {
  const { body, position, options } = progress;
  const size = unsignedMember(raw.parameters?.binaryDataSize, 'binary_data_size', `${field}.parameters`) ?? 0n;
  const left = body.byteLength - position;
  if (size > left) {
    throw new NereidError(
      'INVALID_ARG',
      `unexpected size for input '${name}', expecting ${size - BigInt(left)} additional bytes ` +
        `for model '${options.modelName}'`,
      { field: `${field}.parameters.binary_data_size` },
    );
  }
  progress.position += Number(size);
  return new Uint8Array(body.buffer, body.byteOffset + position, Number(size));
}

function jsonData(progress: Progress, raw: RawTensor, input: JsonInput): Uint8Array {
  const { limits } = progress.options;
  const count = elementCount(input.shape) ?? 0;
  progress.elements += count;
  const textBytes = raw.dataEnd - raw.dataStart;
  checkJsonInput(input, { count, elements: progress.elements, textBytes }, limits);
  if (raw.elements !== undefined) return raw.elements;
  const span = { bytes: progress.document, start: raw.dataStart, end: raw.dataEnd };
  return readElements(span, input.datatype, count, input);
}
