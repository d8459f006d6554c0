/**
 * The four messages that each request takes, as headers without field names; the other kinds are MessagePack
 * (message-header.ts). A later version adds fields at the end of a message or of a block, where readers leave aside what
 * they do not know and take an absent field for its default.
 */
import { frameError } from './frame-body.ts';
import {
  type AnswerTimes,
  type BatchTiming,
  type DoneEntry,
  type DoneMessage,
  ENTRY_RESULTS,
  type Epoch,
  type ExecuteEntry,
  type ExecuteMessage,
  type InferMessage,
  type Message,
  OTHER_RESPONSES,
  type OtherResponse,
  type ResponseMessage,
  type ResponseTimes,
  type StepOrder,
} from './message.ts';
import {
  enterBlock,
  leaveBlock,
  readByte,
  readCount,
  readFlag,
  readInteger,
  readList,
  readName,
  readNullable,
  readNumber,
  readText,
  type WireReader,
} from './wire-reader.ts';
import {
  type MessageReader,
  type MessageWriter,
  readError,
  readOutcome,
  readRequest,
  writeError,
  writeOutcome,
  writeRequest,
} from './wire-tensors.ts';
import {
  closeBlock,
  openBlock,
  type WireWriter,
  writeByte,
  writeFlag,
  writeNullable,
  writeNumber,
  writeText,
} from './wire-writer.ts';

export type WireMessage = InferMessage | ExecuteMessage | ResponseMessage | DoneMessage;

export function isWireMessage(message: Message): message is WireMessage {
  return isWireKind(message.kind);
}

export function isWireKind(kind: Message['kind']): kind is WireMessage['kind'] {
  return kind === 'infer' || kind === 'execute' || kind === 'response' || kind === 'done';
}

export function writeMessage(writer: MessageWriter, message: WireMessage): void {
  switch (message.kind) {
    case 'infer':
      writeInfer(writer, message);
      break;
    case 'execute':
      writeExecute(writer, message);
      break;
    case 'response':
      writeResponse(writer, message);
      break;
    case 'done':
      writeDone(writer, message);
      break;
  }
}

export function readMessage(reader: MessageReader, kind: WireMessage['kind']): WireMessage {
  switch (kind) {
    case 'infer':
      return readInfer(reader);
    case 'execute':
      return readExecute(reader);
    case 'response':
      return readResponse(reader);
    case 'done':
      return readDone(reader);
  }
}

function writeInfer(writer: MessageWriter, message: InferMessage): void {
  writeText(writer, message.model);
  writeEpoch(writer, message.epoch);
  writeText(writer, message.id);
  writeNumber(writer, message.g);
  writeNumber(writer, message.low);
  writeNumber(writer, message.prev);
  writeNullable(writer, message.session, writeText);
  writeNumber(writer, message.step);
  writeNumber(writer, message.sends);
  writeNumber(writer, message.msLeft);
  writeText(writer, message.replyTo);
  writeRequest(writer, message.request);
  writeNumber(writer, message.coming ?? 0);
}

function readInfer(reader: MessageReader): InferMessage {
  const infer: InferMessage = {
    kind: 'infer',
    model: readName(reader),
    epoch: readEpoch(reader),
    id: readText(reader),
    g: readInteger(reader),
    low: readInteger(reader),
    prev: readInteger(reader),
    session: readNullable(reader, readText),
    step: readInteger(reader),
    sends: readInteger(reader),
    msLeft: readNumber(reader),
    replyTo: readName(reader),
    request: readRequest(reader),
  };
  // Builds that close no batch early end here.
  const coming = reader.offset < reader.end ? readCount(reader) : 0;
  return coming === 0 ? infer : { ...infer, coming };
}

function writeExecute(writer: MessageWriter, message: ExecuteMessage): void {
  writeText(writer, message.model);
  writeEpoch(writer, message.epoch);
  writeText(writer, message.version);
  writeNumber(writer, message.batch);
  writeNumber(writer, message.instance);
  writeNumber(writer, message.entries.length);
  for (const entry of message.entries) {
    const start = openBlock(writer);
    writeText(writer, entry.id);
    writeText(writer, entry.replyTo);
    writeNullable(writer, entry.session, writeText);
    writeNumber(writer, entry.slot);
    writeRequest(writer, entry.request);
    if (entry.step !== undefined) writeStepOrder(writer, entry.step);
    closeBlock(writer, start);
  }
  writeNumber(writer, message.load ?? 0);
}

function readExecute(reader: MessageReader): ExecuteMessage {
  const execute: ExecuteMessage = {
    kind: 'execute',
    model: readName(reader),
    epoch: readEpoch(reader),
    version: readName(reader),
    batch: readInteger(reader),
    instance: readInteger(reader),
    entries: readList(reader, readExecuteEntry),
  };
  return withLoad(reader, execute);
}

/** Builds that know one load of a model at a time end before it. */
function withLoad<M extends ExecuteMessage | DoneMessage>(reader: MessageReader, message: M): M {
  const load = reader.offset < reader.end ? readCount(reader) : 0;
  return load === 0 ? message : { ...message, load };
}

function readExecuteEntry(reader: MessageReader): ExecuteEntry {
  const outer = enterBlock(reader);
  const id = readText(reader);
  const replyTo = readName(reader);
  const session = readNullable(reader, readText);
  const slot = readInteger(reader);
  const request = readRequest(reader);
  // Models without sequences end here.
  const step = reader.offset < reader.end ? readStepOrder(reader) : undefined;
  leaveBlock(reader, outer);
  const entry: ExecuteEntry = { id, replyTo, request, session, slot };
  return step === undefined ? entry : { ...entry, step };
}

function writeStepOrder(writer: WireWriter, { bind, g, low, prev, number }: StepOrder): void {
  writeNumber(writer, bind.epoch);
  writeNumber(writer, bind.n);
  writeNumber(writer, g);
  writeNumber(writer, low);
  writeNumber(writer, prev);
  writeNumber(writer, number);
}

function readStepOrder(reader: WireReader): StepOrder {
  return {
    bind: { epoch: readInteger(reader), n: readInteger(reader) },
    g: readInteger(reader),
    low: readInteger(reader),
    prev: readInteger(reader),
    number: readInteger(reader),
  };
}

function writeResponse(writer: MessageWriter, message: ResponseMessage): void {
  writeText(writer, message.model);
  writeText(writer, message.id);
  writeOutcome(writer, message.outcome);
  writeText(writer, message.execution);
  writeNumber(writer, message.chunk);
  writeFlag(writer, message.last);
  if (message.timing !== undefined) writeTiming(writer, message.timing);
}

function readResponse(reader: MessageReader): ResponseMessage {
  const response: ResponseMessage = {
    kind: 'response',
    model: readName(reader),
    id: readText(reader),
    outcome: readOutcome(reader),
    execution: readText(reader),
    chunk: readInteger(reader),
    last: readFlag(reader),
  };
  // All but answers to inner calls end here.
  return reader.offset < reader.end ? { ...response, timing: readTiming(reader) } : response;
}

function writeDone(writer: MessageWriter, message: DoneMessage): void {
  const { timing } = message;
  writeText(writer, message.model);
  writeEpoch(writer, message.epoch);
  writeText(writer, message.version);
  writeText(writer, message.worker);
  writeNumber(writer, message.batch);
  writeNumber(writer, message.instance);
  writeTiming(writer, timing);
  writeFlag(writer, message.executed);
  writeNumber(writer, message.entries.length);
  for (const entry of message.entries) {
    const start = openBlock(writer);
    writeText(writer, entry.id);
    writeByte(writer, ENTRY_RESULTS.indexOf(entry.result));
    writeNullable(writer, entry.error, writeError);
    closeBlock(writer, start);
  }
  writeNullable(writer, message.responses, writeResponseTimes);
  writeNumber(writer, message.load ?? 0);
}

function readDone(reader: MessageReader): DoneMessage {
  const done: DoneMessage = {
    kind: 'done',
    model: readName(reader),
    epoch: readEpoch(reader),
    version: readName(reader),
    worker: readName(reader),
    batch: readInteger(reader),
    instance: readInteger(reader),
    timing: readTiming(reader),
    executed: readFlag(reader),
    entries: readList(reader, readDoneEntry),
  };
  // Builds before streams were counted end here.
  const responses = reader.offset < reader.end ? readNullable(reader, readResponseTimes) : null;
  return withLoad(reader, responses === null ? done : { ...done, responses });
}

function writeResponseTimes(writer: WireWriter, { answers, others }: ResponseTimes): void {
  writeNumber(writer, answers.length);
  for (const { count, inferNs, outputNs } of answers) {
    writeNumber(writer, count);
    writeNumber(writer, inferNs);
    writeNumber(writer, outputNs);
  }
  writeNumber(writer, others.length);
  for (const { index, how, ns } of others) {
    writeNumber(writer, index);
    writeByte(writer, OTHER_RESPONSES.indexOf(how));
    writeNumber(writer, ns);
  }
}

function readResponseTimes(reader: WireReader): ResponseTimes {
  return { answers: readList(reader, readAnswerTimes), others: readList(reader, readOtherResponse) };
}

function readAnswerTimes(reader: WireReader): AnswerTimes {
  return { count: readCount(reader), inferNs: readNumber(reader), outputNs: readNumber(reader) };
}

function readOtherResponse(reader: WireReader): OtherResponse {
  const index = readCount(reader);
  const how = OTHER_RESPONSES[readByte(reader)];
  if (how === undefined) throw frameError('kind of answer expected');
  return { index, how, ns: readNumber(reader) };
}

function writeTiming(writer: WireWriter, timing: BatchTiming): void {
  writeNumber(writer, timing.waitNs);
  writeNumber(writer, timing.inputNs);
  writeNumber(writer, timing.inferNs);
  writeNumber(writer, timing.outputNs);
}

function readTiming(reader: WireReader): BatchTiming {
  return {
    waitNs: readNumber(reader),
    inputNs: readNumber(reader),
    inferNs: readNumber(reader),
    outputNs: readNumber(reader),
  };
}

function readDoneEntry(reader: WireReader): DoneEntry {
  const outer = enterBlock(reader);
  const id = readText(reader);
  const result = ENTRY_RESULTS[readByte(reader)];
  if (result === undefined) throw frameError('result expected');
  const error = readNullable(reader, readError);
  leaveBlock(reader, outer);
  return { id, result, error };
}

function writeEpoch(writer: WireWriter, epoch: Epoch): void {
  writeNumber(writer, epoch.number);
  writeText(writer, epoch.owner);
}

function readEpoch(reader: WireReader): Epoch {
  return { number: readInteger(reader), owner: readName(reader) };
}
