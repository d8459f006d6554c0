/**
 * Files of the journal, `.nrj`: a header line, then frames, each behind its length: tensors before the first step that
 * names them, the steps in order, and the end with the SHA-256 of all before it (docs/replay-files.md).
 */
import { createHash, type Hash } from 'node:crypto';
import { type ByteReader, byteReader } from './byte-reader.ts';
import { NereidError } from './error.ts';
import {
  decodeJournalFrame,
  encodeEndFrame,
  encodeStepFrame,
  encodeTensorFrame,
  type JournalFrame,
} from './journal-frame.ts';
import { gzipped, maybeGunzipped } from './journal-gzip.ts';
import { brokenFile, decodeJournalHeader, encodeJournalHeader, noFile } from './journal-header.ts';
import { JOURNAL_HEADER_BYTES_MAX } from './protocol-limits.ts';
import type { RecordedStep, Recording } from './recorded.ts';
import { recordedTensors, withRecordedTensors } from './recorded-tensors.ts';
import { sha256 } from './sha256.ts';

const LENGTH_BYTES = 4;
/** Data of so many stand in a frame of their own, once. */
const APART_BYTES_MIN = 16_384;

/**
 * A recording as a file. Takes as many steps as it says that it has; rejects with NOT_FOUND where there are fewer, since
 * it went away meanwhile.
 */
export function writeJournalFile(
  recording: Recording,
  steps: AsyncIterable<RecordedStep> | Iterable<RecordedStep>,
  options: { readonly gzip: boolean },
): AsyncGenerator<Uint8Array, void, undefined> {
  const chunks = fileChunks(recording, steps);
  return options.gzip ? gzipped(chunks) : chunks;
}

async function* fileChunks(
  recording: Recording,
  steps: AsyncIterable<RecordedStep> | Iterable<RecordedStep>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const hash = createHash('sha256');
  const hashed = (bytes: Buffer): Buffer => {
    hash.update(bytes);
    return bytes;
  };
  yield hashed(Buffer.from(`${encodeJournalHeader(recording)}\n`));
  const written = new Set<string>();
  let count = 0;
  if (recording.steps > 0) {
    for await (const step of steps) {
      const named = withDigests(step);
      for (const { digest, data } of recordedTensors(named)) {
        if (digest === undefined || data === undefined || written.has(digest)) continue;
        written.add(digest);
        yield hashed(prefixed(encodeTensorFrame(digest, data)));
      }
      yield hashed(prefixed(encodeStepFrame(named)));
      if (++count === recording.steps) break;
    }
  }
  if (count < recording.steps) {
    throw new NereidError(
      'NOT_FOUND',
      `recording '${recording.id}' went away after step ${count - 1} of ${recording.steps}`,
    );
  }
  yield prefixed(encodeEndFrame(hash.digest('hex')));
}

function prefixed(frame: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(frame.byteLength);
  return Buffer.concat([length, frame]);
}

/** What a file may have. */
export interface JournalFileLimits {
  readonly steps_max: number;
  /** Of its frames together, decompressed. They are little more than the recording's `bytes`. */
  readonly bytes_max: number;
}

/** A file that is being read. */
export interface JournalFile {
  /** With the id that it had where it was recorded. */
  readonly recording: Recording;
  /** The steps with their data, once, to be read to their end: what is wrong with the file may show there alone. */
  readonly steps: AsyncIterable<RecordedStep>;
  /** Ends the chunks where the steps are not wanted; reading them does so by itself, however it ends. */
  close(): Promise<void>;
}

/**
 * Reads a file, gzipped or not. It holds a frame, and the tensors that stand apart. Rejects, and so do the steps, with
 * INVALID_ARG where it is broken, of a later version or beyond the limits, and with what the chunks reject with.
 */
export async function readJournalFile(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  limits: JournalFileLimits,
): Promise<JournalFile> {
  const plain = maybeGunzipped(chunks);
  try {
    const reader = byteReader(plain);
    const line = await reader.line(JOURNAL_HEADER_BYTES_MAX);
    if (line === undefined) throw noFile();
    const recording = decodeJournalHeader(line.toString());
    if (recording.steps > limits.steps_max) {
      throw tooLarge(`${recording.steps} steps, and ${limits.steps_max} are the most`);
    }
    const hash = createHash('sha256').update(line).update('\n');
    const close = async () => void (await plain.return());
    return { recording, steps: closing(fileSteps(reader, recording.steps, limits, hash), close), close };
  } catch (error) {
    await plain.return();
    throw error;
  }
}

async function* closing(
  steps: AsyncIterable<RecordedStep>,
  close: () => Promise<void>,
): AsyncGenerator<RecordedStep, void, undefined> {
  try {
    yield* steps;
  } finally {
    await close();
  }
}

/** Reads frames until the end, and yields the steps among them. */
async function* fileSteps(
  reader: ByteReader,
  steps: number,
  limits: JournalFileLimits,
  hash: Hash,
): AsyncGenerator<RecordedStep, void, undefined> {
  const tensors = new Map<string, Uint8Array>();
  let left = limits.bytes_max;
  let next = 0;
  for (let position = 0; ; position++) {
    const bytes = await frameBytes(reader, position, left, limits);
    left -= bytes.byteLength;
    const frame = decoded(bytes.subarray(LENGTH_BYTES), position);
    switch (frame.kind) {
      case 'tensor':
        if (tensors.has(frame.digest)) throw brokenAt(position, `tensor ${frame.digest} is there a second time`);
        if (sha256(frame.data) !== frame.digest) throw brokenAt(position, `the data are not those of ${frame.digest}`);
        tensors.set(frame.digest, frame.data);
        break;
      case 'step':
        if (frame.step.step !== next || next === steps)
          throw brokenAt(position, `step ${frame.step.step} where ${due(next, steps)}`);
        next++;
        yield withData(frame.step, tensors);
        break;
      case 'end':
        if (next < steps) throw brokenAt(position, `it ends where ${due(next, steps)}`);
        if (hash.digest('hex') !== frame.sha256)
          throw brokenFile('it was changed: its SHA-256 is not the one at its end');
        if (!(await reader.ended())) throw brokenAt(position, 'bytes stand behind the end');
        return;
    }
    hash.update(bytes);
  }
}

/** The next frame with its length in front. */
async function frameBytes(
  reader: ByteReader,
  position: number,
  left: number,
  limits: JournalFileLimits,
): Promise<Buffer> {
  const prefix = await reader.take(LENGTH_BYTES);
  if (prefix === undefined) throw brokenAt(position, 'the file is cut before it');
  const length = prefix.readUInt32LE();
  if (LENGTH_BYTES + length > left) {
    throw tooLarge(`over ${limits.bytes_max} bytes, as frame ${position} says with a length of ${length}`);
  }
  const frame = await reader.take(length);
  if (frame === undefined) throw brokenAt(position, `the file is cut within it, it has ${length} bytes`);
  return Buffer.concat([prefix, frame]);
}

function decoded(bytes: Buffer, position: number): JournalFrame {
  try {
    return decodeJournalFrame(bytes);
  } catch (error) {
    if (error instanceof NereidError) throw brokenAt(position, error.message, error);
    throw error;
  }
}

function due(next: number, steps: number): string {
  return next < steps ? `step ${next} of ${steps} is due` : `all ${steps} steps have been`;
}

/** Frames are counted from 0, behind the header. */
function brokenAt(position: number, why: string, cause?: unknown): NereidError {
  return brokenFile(`frame ${position}: ${why}`, cause);
}

function tooLarge(has: string): NereidError {
  const text = `the journal file is too large: it has ${has}; --journal-config sets what a recording may have`;
  return new NereidError('INVALID_ARG', text, { field: 'body' });
}

/** Large tensors get the digest that they stand apart by; nothing but its name, datatype and shape is left of a redacted one. */
function withDigests(step: RecordedStep): RecordedStep {
  return withRecordedTensors(step, (tensor) => {
    const { name, datatype, shape, redacted, digest, data } = tensor;
    if (redacted === true) return { name, datatype, shape, redacted };
    if (digest !== undefined || data === undefined || data.byteLength < APART_BYTES_MIN) return tensor;
    return { ...tensor, digest: sha256(data) };
  });
}

/** A digest of which the file has no tensor is of data that were not kept. */
function withData(step: RecordedStep, tensors: ReadonlyMap<string, Uint8Array>): RecordedStep {
  return withRecordedTensors(step, (tensor) => {
    const data = tensor.digest === undefined ? undefined : tensors.get(tensor.digest);
    return data === undefined ? tensor : { ...tensor, data };
  });
}
