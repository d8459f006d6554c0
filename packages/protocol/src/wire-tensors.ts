/** Requests and answers of the hot messages, with their tensors: described in the header, their bytes in the frame's body. */
import {
  BLOB_ID,
  BLOB_PLACES,
  type BlobRef,
  type BlobTensor,
  type CarriedOutcome,
  type CarriedRequest,
  type CarriedTensor,
} from './blob.ts';
import type { Datatype } from './datatype.ts';
import { ERROR_TABLE, type ErrorCode, type ErrorInfo } from './error.ts';
import { type FrameBody, frameError, takeBytes } from './frame-body.ts';
import type { InferResponse, InnerCall, Parameters, ParameterValue, ParentCall } from './infer.ts';
import type { Tensor } from './tensor.ts';
import {
  enterBlock,
  leaveBlock,
  readByte,
  readCount,
  readFlag,
  readInteger,
  readList,
  readLong,
  readName,
  readNullable,
  readNumber,
  readText,
  type WireReader,
} from './wire-reader.ts';
import {
  closeBlock,
  openBlock,
  type WireWriter,
  writeByte,
  writeFlag,
  writeLong,
  writeNullable,
  writeNumber,
  writeText,
} from './wire-writer.ts';

/** Puts a tensor's data down elsewhere, to be named in its place; undefined where they are to be in the frame. */
export type Detach = (tensor: Tensor) => BlobRef | undefined;

/** Tensors whose data go into the frame are appended to `tensors`, in the order of the body. */
export interface MessageWriter extends WireWriter {
  readonly tensors: Tensor[];
  readonly detach: Detach | undefined;
}

export interface MessageReader extends WireReader {
  readonly body: FrameBody;
}

/** A datatype keeps its number for ever. */
const DATATYPE_NUMBERS: Readonly<Record<Datatype, number>> = {
  BOOL: 0,
  UINT8: 1,
  UINT16: 2,
  UINT32: 3,
  UINT64: 4,
  INT8: 5,
  INT16: 6,
  INT32: 7,
  INT64: 8,
  FP16: 9,
  BF16: 10,
  FP32: 11,
  FP64: 12,
  BYTES: 13,
};
const DATATYPES = new Map(Object.entries(DATATYPE_NUMBERS).map(([datatype, number]) => [number, datatype as Datatype]));

/** What a tensor or a correlation id, or the value of a parameter, is. */
const IN_FRAME = 0;
const LONG = 0;
const TEXT = 1;
const REAL = 2;
const FALSE = 3;
const TRUE = 4;

export function writeRequest(writer: MessageWriter, request: CarriedRequest): void {
  const start = openBlock(writer);
  writeText(writer, request.modelName);
  writeText(writer, request.modelVersion);
  writeText(writer, request.id);
  writeParameter(writer, request.correlationId);
  writeFlag(writer, request.sequenceStart);
  writeFlag(writer, request.sequenceEnd);
  writeLong(writer, request.priority);
  writeLong(writer, request.timeoutUs);
  writeParameters(writer, request.parameters);
  writeTensors(writer, request.inputs);
  writeNumber(writer, request.requestedOutputs.length);
  for (const name of request.requestedOutputs) writeText(writer, name);
  const isBackground = request.background === true;
  const isRecorded = request.journal !== undefined || request.shownId !== undefined;
  if (request.trace !== undefined || request.inner !== undefined || isBackground || isRecorded) {
    writeNullable(writer, request.trace, writeText);
    writeNullable(writer, request.inner, writeInner);
    if (isBackground || isRecorded) writeFlag(writer, isBackground);
    if (isRecorded) {
      writeNullable(writer, request.journal, writeFlag);
      writeNullable(writer, request.shownId, writeParameter);
    }
  }
  closeBlock(writer, start);
}

export function readRequest(reader: MessageReader): CarriedRequest {
  const outer = enterBlock(reader);
  const request: CarriedRequest = {
    modelName: readName(reader),
    modelVersion: readName(reader),
    id: readText(reader),
    correlationId: readCorrelationId(reader),
    sequenceStart: readFlag(reader),
    sequenceEnd: readFlag(reader),
    priority: readLong(reader),
    timeoutUs: readLong(reader),
    parameters: readParameters(reader),
    inputs: readList(reader, readTensor),
    requestedOutputs: readList(reader, readName),
  };
  // Those of a door without a trace end here.
  const isPlain = reader.offset === reader.end;
  const trace = isPlain ? null : readNullable(reader, readText);
  const inner = isPlain ? null : readNullable(reader, readInner);
  // All but lines of batches end here.
  const background = reader.offset < reader.end && readFlag(reader);
  // All but those that say whether they are recorded, and those that are replayed, end here.
  const isRecorded = reader.offset < reader.end;
  const journal = isRecorded ? readNullable(reader, readFlag) : null;
  const shownId = isRecorded ? readNullable(reader, readCorrelationId) : null;
  leaveBlock(reader, outer);
  if (isPlain) return request;
  return {
    ...request,
    ...(trace === null ? {} : { trace }),
    ...(inner === null ? {} : { inner }),
    ...(background ? { background } : {}),
    ...(journal === null ? {} : { journal }),
    ...(shownId === null ? {} : { shownId }),
  };
}

function writeInner(writer: WireWriter, { keep, parent }: InnerCall): void {
  writeNumber(writer, keep.length);
  for (const name of keep) writeText(writer, name);
  writeNullable(writer, parent, writeParent);
}

function readInner(reader: WireReader): InnerCall {
  const keep = readList(reader, readName);
  const parent = readNullable(reader, readParent);
  return parent === null ? { keep } : { keep, parent };
}

function writeParent(writer: WireWriter, { id, step }: ParentCall): void {
  writeText(writer, id);
  writeNumber(writer, step);
}

function readParent(reader: WireReader): ParentCall {
  return { id: readText(reader), step: readInteger(reader) };
}

export function writeOutcome(writer: MessageWriter, outcome: CarriedOutcome): void {
  writeFlag(writer, outcome.ok);
  const start = openBlock(writer);
  if (outcome.ok) {
    const { response } = outcome;
    writeText(writer, response.modelName);
    writeText(writer, response.modelVersion);
    writeText(writer, response.id);
    writeParameters(writer, response.parameters);
    writeTensors(writer, response.outputs);
  } else {
    writeError(writer, outcome.error);
  }
  closeBlock(writer, start);
}

export function readOutcome(reader: MessageReader): CarriedOutcome {
  const ok = readFlag(reader);
  const outer = enterBlock(reader);
  const outcome: CarriedOutcome = ok ? { ok, response: readResponse(reader) } : { ok, error: readError(reader) };
  leaveBlock(reader, outer);
  return outcome;
}

function readResponse(reader: MessageReader): InferResponse<CarriedTensor> {
  return {
    modelName: readName(reader),
    modelVersion: readName(reader),
    id: readText(reader),
    parameters: readParameters(reader),
    outputs: readList(reader, readTensor),
  };
}

export function writeError(writer: WireWriter, error: ErrorInfo): void {
  writeText(writer, error.code);
  writeText(writer, error.message);
  writeNullable(writer, error.field, writeText);
  writeNullable(writer, error.reason, writeText);
}

export function readError(reader: WireReader): ErrorInfo {
  const code = readName(reader);
  if (!Object.hasOwn(ERROR_TABLE, code)) throw frameError('error code expected');
  const message = readText(reader);
  const field = readNullable(reader, readText);
  const reason = readNullable(reader, readText);
  return {
    code: code as ErrorCode,
    message,
    ...(field === null ? {} : { field }),
    ...(reason === null ? {} : { reason }),
  };
}

/** A name, a datatype, a shape, where the data are, how many bytes they have; of a blob its id. */
function writeTensors(writer: MessageWriter, tensors: readonly CarriedTensor[]): void {
  writeNumber(writer, tensors.length);
  for (const tensor of tensors) {
    writeText(writer, tensor.name);
    writeByte(writer, DATATYPE_NUMBERS[tensor.datatype]);
    writeNumber(writer, tensor.shape.length);
    for (const dimension of tensor.shape) writeNumber(writer, dimension);
    const blob = 'blob' in tensor ? tensor.blob : writer.detach?.(tensor);
    if (blob !== undefined) {
      writeByte(writer, 1 + BLOB_PLACES.indexOf(blob.place));
      writeNumber(writer, blob.bytes);
      writeText(writer, blob.id);
    } else if ('data' in tensor) {
      writeByte(writer, IN_FRAME);
      writeNumber(writer, tensor.data.byteLength);
      writer.tensors.push(tensor);
    }
  }
}

function readTensor(reader: MessageReader): CarriedTensor {
  const name = readName(reader);
  const datatype = DATATYPES.get(readByte(reader));
  if (datatype === undefined) throw frameError('datatype expected');
  const shape = readList(reader, readCount);
  const where = readByte(reader);
  const bytes = readCount(reader);
  if (where === IN_FRAME) return { name, datatype, shape, data: takeBytes(bytes, reader.body) };
  const place = BLOB_PLACES[where - 1];
  if (place === undefined) throw frameError('place of a blob expected');
  const id = readText(reader);
  if (!BLOB_ID.test(id)) throw frameError('name of a blob expected');
  return { name, datatype, shape, blob: { place, id, bytes } } satisfies BlobTensor;
}

function writeParameters(writer: WireWriter, parameters: Parameters): void {
  const names = Object.keys(parameters);
  writeNumber(writer, names.length);
  for (const name of names) {
    writeText(writer, name);
    writeParameter(writer, parameters[name] ?? '');
  }
}

function readParameters(reader: WireReader): Parameters {
  const length = readCount(reader);
  if (length === 0) return {};
  const entries: [string, ParameterValue][] = [];
  for (let index = 0; index < length; index++) entries.push([readName(reader), readParameter(reader)]);
  // Any name may be a member of its own, `__proto__` too.
  return Object.fromEntries(entries);
}

function writeParameter(writer: WireWriter, value: ParameterValue): void {
  switch (typeof value) {
    case 'bigint':
      writeByte(writer, LONG);
      writeLong(writer, value);
      break;
    case 'string':
      writeByte(writer, TEXT);
      writeText(writer, value);
      break;
    case 'number':
      writeByte(writer, REAL);
      writeNumber(writer, value);
      break;
    default:
      writeByte(writer, value ? TRUE : FALSE);
  }
}

function readParameter(reader: WireReader): ParameterValue {
  switch (readByte(reader)) {
    case LONG:
      return readLong(reader);
    case TEXT:
      return readText(reader);
    case REAL:
      return readNumber(reader);
    case FALSE:
      return false;
    case TRUE:
      return true;
    default:
      throw frameError('parameter expected');
  }
}

function readCorrelationId(reader: WireReader): bigint | string {
  const value = readParameter(reader);
  if (typeof value !== 'bigint' && typeof value !== 'string') throw frameError('correlation id expected');
  return value;
}
