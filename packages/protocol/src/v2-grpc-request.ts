/**
 * Second pass over a ModelInferRequest: from the members that v2-grpc-document.ts read to an
 * InferRequest, with the mistakes in the order in which Triton finds them (infer_handler.cc:
 * parameters, inputs one by one, outputs).
 */
import { type Datatype, isDatatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { type InferRequest, withOwnParameters } from './infer.ts';
import type { GrpcRequestLimits } from './protocol-limits.ts';
import { requestedNames } from './requested-names.ts';
import { elementCount, type Tensor } from './tensor.ts';
import { type ContentsUse, contentsData } from './v2-grpc-contents.ts';
import type { GrpcInferDocument, GrpcOutput, GrpcTensor } from './v2-grpc-document.ts';
import { classificationCount, grpcRequestParameters, grpcSharedMemoryPlace } from './v2-grpc-parameters.ts';
import { shapeOverflow } from './v2-member.ts';
import type { RequestedOutput } from './v2-outputs.ts';
import { addSharedBytes, type ReadSharedMemory, unknownRegion } from './v2-shared-memory.ts';

export interface GrpcDecodeOptions {
  /** '' for the greatest ready one. */
  readonly modelVersion: string;
  readonly limits: GrpcRequestLimits;
  /** Reads inputs that lie in shared memory. Without it every region is unknown, also of outputs. */
  readonly readSharedMemory?: ReadSharedMemory | undefined;
}

export interface DecodedGrpcRequest {
  readonly request: InferRequest;
  /** The outputs that the client listed, in its order, repeated ones too. */
  readonly outputs: readonly RequestedOutput[];
  /** The client wants the end of a stream also where it comes alone. */
  readonly emptyFinalResponse: boolean;
}

/** In checkRequest's words (Triton's) it is what a name that is no datatype's reads as; no model has such an input. */
const INVALID_DATATYPE = '<invalid>' as Datatype;

/**
 * Input data that came as bytes are views on the message; the caller must leave it as it is.
 * Throws INVALID_ARG with Triton's text and the field at fault, and NOT_FOUND for a shared memory
 * region. What needs the model's config (names, datatypes, byte sizes) is not checked here.
 */
export function decodeGrpcInferRequest(document: GrpcInferDocument, options: GrpcDecodeOptions): DecodedGrpcRequest {
  const parameters = grpcRequestParameters(document.parameters);
  const inputs = readInputs(document, options);
  const outputs =
    document.outputs.length === 0
      ? NO_OUTPUTS
      : document.outputs.map((output, index) => readOutput(output, index, options));
  const { sequenceStep, journal } = parameters;
  const request = {
    modelName: document.modelName,
    modelVersion: options.modelVersion,
    id: document.id,
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
    emptyFinalResponse: parameters.emptyFinalResponse,
  };
}

const NO_OUTPUTS: readonly RequestedOutput[] = [];

/** What the inputs before have used up. */
interface Progress extends ContentsUse {
  /** The next raw entry; inputs in shared memory have none. */
  rawIndex: number;
  /** Bytes from shared memory so far. */
  sharedBytes: number;
}

function readInputs(document: GrpcInferDocument, options: GrpcDecodeOptions): readonly Tensor[] {
  const progress: Progress = { elements: 0, rawIndex: 0, sharedBytes: 0 };
  return document.inputs.map((input, index) => {
    const { name, datatype, shape } = input;
    const field = `inputs[${index}]`;
    if (!shape.every(Number.isSafeInteger) || elementCount(shape) === undefined) {
      throw shapeOverflow(name, shape, `${field}.shape`);
    }
    return {
      name,
      datatype: isDatatype(datatype) ? datatype : INVALID_DATATYPE,
      shape,
      data: inputData(document, input, field, progress, options),
    };
  });
}

function inputData(
  { modelName, rawInputContents }: GrpcInferDocument,
  input: GrpcTensor,
  field: string,
  progress: Progress,
  { limits, readSharedMemory }: GrpcDecodeOptions,
): Uint8Array {
  const { name, datatype, contents } = input;
  const place = grpcSharedMemoryPlace(input.parameters, name, field);
  if (place !== undefined) {
    if (contents !== undefined) {
      throw wrongContents(
        `unexpected 'content' provided when using shared memory for input tensor '${name}' for model '${modelName}'`,
        field,
      );
    }
    if (readSharedMemory === undefined) throw unknownRegion(place.region, field);
    progress.sharedBytes = addSharedBytes(progress.sharedBytes, place.byteSize, field);
    return readSharedMemory(place.region, place.offset, place.byteSize, field);
  }
  if (contents !== undefined) {
    if (rawInputContents.length > 0) {
      throw wrongContents(
        `contents field must not be specified when using raw_input_contents for '${name}' for model '${modelName}'`,
        field,
      );
    }
    const tensor = { name, datatype: isDatatype(datatype) ? datatype : undefined, modelName, field };
    return contentsData(contents, tensor, limits, progress);
  }
  const raw = rawInputContents[progress.rawIndex++];
  if (raw !== undefined) return raw;
  throw wrongContents(`unable to find data for input tensor '${name}' for model '${modelName}' in request.`, field);
}

function wrongContents(message: string, field: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field: `${field}.contents` });
}

function readOutput(
  { name, parameters }: GrpcOutput,
  index: number,
  { readSharedMemory }: GrpcDecodeOptions,
): RequestedOutput {
  const field = `outputs[${index}]`;
  const classification = classificationCount(parameters, field);
  const place = grpcSharedMemoryPlace(parameters, name, field);
  if (place === undefined) return { name, binary: true, classification };
  if (classification > 0) {
    const text = "output can't set both 'shared_memory_region' and 'classification'";
    throw new NereidError('INVALID_ARG', text, { field: `${field}.parameters` });
  }
  if (readSharedMemory === undefined) throw unknownRegion(place.region, field);
  return { name, binary: true, classification, sharedMemory: place };
}
