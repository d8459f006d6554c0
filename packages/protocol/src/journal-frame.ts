/**
 * Frames of the journal, in Redis and in files: "Nj", version, kind, uint32 length of the head (little-endian), the head
 * as JSON, then the bytes of its tensors one after another, in the head's order. 64-bit integers of the head are texts
 * of a member that says so, so that any JSON reader keeps them.
 */
import { type Datatype, isDatatype } from './datatype.ts';
import { ERROR_TABLE, type ErrorInfo, NereidError } from './error.ts';
import type { Parameters, ParameterValue } from './infer.ts';
import { stepHead } from './journal-head.ts';
import type { BatchTiming } from './message.ts';
import { FRAME_HEADER_BYTES_MAX, WALL_MS_MAX } from './protocol-limits.ts';
import type { RecordedAnswer, RecordedRequest, RecordedStep, RecordedTensor, StepEffect } from './recorded.ts';

const MAGIC = 'Nj';
/** Written into every frame; frames of this version and the one before are read. */
export const JOURNAL_FRAME_VERSION = 1;
const PREFIX_BYTES = 8;
const KINDS = { step: 1, tensor: 2, end: 3 } as const;

/** A step, the data of a tensor that steps name by its digest, or the end of a file with the SHA-256 of what is before it. */
export type JournalFrame =
  | { readonly kind: 'step'; readonly step: RecordedStep }
  | { readonly kind: 'tensor'; readonly digest: string; readonly data: Uint8Array }
  | { readonly kind: 'end'; readonly sha256: string };

/**
 * The frame of a step; a tensor with a digest goes without its data. `apart` may name one of a tensor whose data its caller
 * keeps elsewhere.
 */
export function encodeStepFrame(step: RecordedStep, apart?: (tensor: RecordedTensor) => string | undefined): Buffer {
  const data: Uint8Array[] = [];
  return frame(KINDS.step, stepHead(step, data, apart), data);
}

export function encodeTensorFrame(digest: string, data: Uint8Array): Buffer {
  return frame(KINDS.tensor, JSON.stringify({ digest, bytes: data.byteLength }), [data]);
}

export function encodeEndFrame(sha256: string): Buffer {
  return frame(KINDS.end, JSON.stringify({ sha256 }), []);
}

/** Its tensors are views on the frame. Throws INVALID_ARG where it is none, or one of a later version. */
export function decodeJournalFrame(bytes: Uint8Array): JournalFrame {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.byteLength < PREFIX_BYTES || buffer.toString('latin1', 0, 2) !== MAGIC) throw broken('it is none');
  const version = buffer[2] ?? 0;
  if (version !== JOURNAL_FRAME_VERSION) {
    throw broken(`it is of version ${version}, and this build reads version ${JOURNAL_FRAME_VERSION}`);
  }
  const headEnd = PREFIX_BYTES + buffer.readUInt32LE(4);
  if (headEnd - PREFIX_BYTES > FRAME_HEADER_BYTES_MAX)
    throw broken(`its head has over ${FRAME_HEADER_BYTES_MAX} bytes`);
  const cursor: Cursor = { bytes: buffer, offset: headEnd };
  const decoded = frameOf(buffer[3], parsed(buffer, headEnd), cursor);
  const left = buffer.byteLength - cursor.offset;
  if (left > 0) throw broken(`${left} bytes stand behind its tensors`);
  return decoded;
}

function frameOf(kind: number | undefined, head: Head, cursor: Cursor): JournalFrame {
  switch (kind) {
    case KINDS.step:
      return { kind: 'step', step: stepOf(head, cursor) };
    case KINDS.tensor:
      return { kind: 'tensor', digest: text(head, 'digest'), data: take(cursor, count(head, 'bytes')) };
    case KINDS.end:
      return { kind: 'end', sha256: text(head, 'sha256') };
    default:
      throw broken(`its kind ${kind} is unknown`);
  }
}

interface Cursor {
  readonly bytes: Buffer;
  offset: number;
}

type Head = Readonly<Record<string, unknown>>;

function frame(kind: number, head: string, data: readonly Uint8Array[]): Buffer {
  const headBytes = Buffer.byteLength(head);
  let bytes = PREFIX_BYTES + headBytes;
  for (const { byteLength } of data) bytes += byteLength;
  const framed = Buffer.allocUnsafe(bytes);
  framed.write(MAGIC, 'latin1');
  framed[2] = JOURNAL_FRAME_VERSION;
  framed[3] = kind;
  framed.writeUInt32LE(headBytes, 4);
  framed.write(head, PREFIX_BYTES);
  let offset = PREFIX_BYTES + headBytes;
  for (const part of data) {
    framed.set(part, offset);
    offset += part.byteLength;
  }
  return framed;
}

function parsed(buffer: Buffer, end: number): Head {
  if (end > buffer.byteLength) throw broken('it ends within its head');
  try {
    return object(JSON.parse(buffer.toString('utf8', PREFIX_BYTES, end)));
  } catch (cause) {
    if (cause instanceof NereidError) throw cause;
    throw broken('its head is no JSON', cause);
  }
}

function stepOf(head: Head, cursor: Cursor): RecordedStep {
  const effect = text(head, 'effect') as StepEffect;
  if (effect !== 'applied' && effect !== 'cancelled' && effect !== 'lost')
    throw broken(`effect '${effect}' is unknown`);
  return {
    step: count(head, 'step'),
    token: text(head, 'token'),
    // Tensors lie in this order.
    request: requestOf(object(head.request), cursor),
    modelVersion: text(head, 'modelVersion'),
    configSha256: text(head, 'configSha256'),
    contentHash: text(head, 'contentHash'),
    worker: text(head, 'worker'),
    instance: number(head, 'instance'),
    slot: number(head, 'slot'),
    batchSize: count(head, 'batchSize'),
    receivedMs: time(head, 'receivedMs'),
    timing: timingOf(object(head.timing)),
    effect,
    answers: list(head, 'answers').map((answer) => answerOf(object(answer), cursor)),
  };
}

function requestOf(head: Head, cursor: Cursor): RecordedRequest {
  const { correlationId: id, sequenceStep } = head;
  return {
    id: text(head, 'id'),
    correlationId: typeof id === 'string' ? id : long(object(id), 'uint64'),
    sequenceStart: head.sequenceStart === true,
    sequenceEnd: head.sequenceEnd === true,
    ...(sequenceStep === undefined ? {} : { sequenceStep: count(head, 'sequenceStep') }),
    priority: long(head, 'priority'),
    timeoutUs: long(head, 'timeoutUs'),
    parameters: parametersOf(list(head, 'parameters')),
    inputs: list(head, 'inputs').map((tensor) => tensorOf(object(tensor), cursor)),
    requestedOutputs: list(head, 'requestedOutputs').map((name) => text({ name }, 'name')),
  };
}

function answerOf(head: Head, cursor: Cursor): RecordedAnswer {
  if (head.ok !== true) return { ok: false, error: errorOf(object(head.error)) };
  return {
    ok: true,
    parameters: parametersOf(list(head, 'parameters')),
    outputs: list(head, 'outputs').map((tensor) => tensorOf(object(tensor), cursor)),
  };
}

function tensorOf(head: Head, cursor: Cursor): RecordedTensor {
  const { datatype, digest, redacted } = head;
  if (!isDatatype(datatype)) throw broken(`datatype '${String(datatype)}' is unknown`);
  const shape = list(head, 'shape').map((dimension) => count({ dimension }, 'dimension'));
  const described = { name: text(head, 'name'), datatype: datatype as Datatype, shape };
  if (redacted === true) return { ...described, redacted };
  if (digest !== undefined) return { ...described, digest: text(head, 'digest') };
  return { ...described, data: take(cursor, count(head, 'bytes')) };
}

function timingOf(head: Head): BatchTiming {
  return {
    waitNs: number(head, 'waitNs'),
    inputNs: number(head, 'inputNs'),
    inferNs: number(head, 'inferNs'),
    outputNs: number(head, 'outputNs'),
  };
}

function errorOf(head: Head): ErrorInfo {
  const code = text(head, 'code');
  if (!Object.hasOwn(ERROR_TABLE, code)) throw broken(`error code '${code}' is unknown`);
  const { field, reason } = head;
  return {
    code: code as ErrorInfo['code'],
    message: text(head, 'message'),
    ...(typeof field === 'string' ? { field } : {}),
    ...(typeof reason === 'string' ? { reason: reason as NonNullable<ErrorInfo['reason']> } : {}),
  };
}

function parametersOf(entries: readonly unknown[]): Parameters {
  return Object.fromEntries(
    entries.map((entry): [string, ParameterValue] => {
      const [name, kind, value] = Array.isArray(entry) ? entry : [];
      if (typeof name !== 'string') throw broken('a parameter has no name');
      if (kind === 'int64') return [name, long({ value }, 'value')];
      if (kind === 'double') return [name, Number(value)];
      if (typeof value === kind && (typeof value === 'string' || typeof value === 'boolean')) return [name, value];
      throw broken(`parameter '${name}' is of an unknown kind`);
    }),
  );
}

function take(cursor: Cursor, bytes: number): Uint8Array {
  const end = cursor.offset + bytes;
  if (end > cursor.bytes.byteLength) throw broken('it ends within a tensor');
  const data = cursor.bytes.subarray(cursor.offset, end);
  cursor.offset = end;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function object(value: unknown): Head {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Head;
  throw broken('an object is expected');
}

function text(head: Head, name: string): string {
  const value = head[name];
  return typeof value === 'string' ? value : missing(name, 'a text');
}

function number(head: Head, name: string): number {
  const value = head[name];
  // JSON has infinities, too: 1e999.
  return Number.isFinite(value) ? (value as number) : missing(name, 'a number');
}

function time(head: Head, name: string): number {
  const value = number(head, name);
  return Math.abs(value) <= WALL_MS_MAX ? value : missing(name, 'a time');
}

function count(head: Head, name: string): number {
  const value = head[name];
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : missing(name, 'a whole number');
}

function long(head: Head, name: string): bigint {
  const value = head[name];
  const read = typeof value === 'string' && /^-?[0-9]{1,20}$/.test(value) ? BigInt(value) : undefined;
  return read !== undefined && has64Bits(read) ? read : missing(name, 'an integer of 64 bits');
}

/** Signed or unsigned: no message holds more. */
function has64Bits(value: bigint): boolean {
  return value === BigInt.asUintN(64, value) || value === BigInt.asIntN(64, value);
}

function list(head: Head, name: string): readonly unknown[] {
  const value = head[name];
  return Array.isArray(value) ? value : missing(name, 'a list');
}

function missing(name: string, what: string): never {
  throw broken(`its '${name}' must be ${what}`);
}

function broken(why: string, cause?: unknown): NereidError {
  return new NereidError('INVALID_ARG', `broken frame of a journal: ${why}`, { field: 'body', cause });
}
