import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Caller } from '@nereid/caller';
import type { DecodedJob, ErrorInfo, JobBlobs, JsonObject, Outcome } from '@nereid/protocol';
import { type Clock, type Log, pause } from '@nereid/runtime';
import type { BulkRecord, BulkStore, JobPayloads } from '@nereid/transport';
import { createBulkChunks } from './bulk-chunks.ts';
import { lineDone, lineFailed, lineRequest, type ParsedLine, parseLine, readLine } from './bulk-line.ts';
import { createBulkResults } from './bulk-results.ts';
import { createBulkRoom } from './bulk-room.ts';
import { resultOf } from './job-request.ts';
import { jobVerdict } from './job-verdict.ts';
import type { OwnedModel } from './owned-model.ts';

/** A line that cannot run now is tried again after this, which counts no attempt. */
const LATER_MS = 500;
/** Before another attempt of a line that failed, times the attempts made. */
const AGAIN_MS = 200;
/** Blobs that Redis did not give are asked for again after this. */
const BLOBS_AGAIN_MS = 500;
/** Text, and blobs, of lines that run at a time. */
const RUNNING_BYTES_MAX = 16_777_216;

const NO_BLOBS: JobBlobs = new Map();

export interface BulkRunParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<BulkStore, 'chunk' | 'settle' | 'end' | 'clear' | 'memory'>;
  /** Where blobs are that lines name. */
  readonly payloads: Pick<JobPayloads, 'read'>;
  readonly model: OwnedModel;
  readonly record: BulkRecord;
  readonly caller: Pick<Caller, 'infer' | 'inferStream'>;
  /** How many lines may be on their way. */
  readonly window: () => number;
}

export interface BulkRun {
  readonly id: string;
  /** Lines on their way. */
  readonly running: number;
  /** Cancels what is on its way; lines without a result are left for whoever goes on. */
  stop(): void;
  /** Resolves at its end: every line has a result, the batch is over, or `stop` was called. Never rejects. */
  readonly ended: Promise<void>;
}

type LineEnd =
  | { readonly ok: true; readonly bodies: readonly JsonObject[] }
  | { readonly ok: false; readonly error: ErrorInfo };

/**
 * Runs the lines of a batch that have no result, in their order, some at a time, as requests that nobody waits for. One
 * is begun in a turn of the event loop, so that requests that somebody waits for are read and answered in between.
 */
export function startBulkRun(parts: BulkRunParts): BulkRun {
  const { clock, log, store, payloads, model, record, caller } = parts;
  const ending = new AbortController();
  const { signal } = ending;
  // One for each line.
  setMaxListeners(0, signal);
  let running = 0;
  let bytes = 0;
  let lineOver = () => {};

  const common = { clock, log, store, signal, batch: record.id };
  const chunks = createBulkChunks(common);
  const space = createBulkRoom(common);
  const results = createBulkResults({
    ...common,
    written(state, written) {
      chunks.settled(written);
      if (state !== 'waiting' && state !== 'running') ending.abort();
    },
  });

  const hasRoom = () => running < parts.window() && (running === 0 || bytes < RUNNING_BYTES_MAX) && !results.full;

  const room = async () => {
    while (!hasRoom() && !signal.aborted) {
      if (running === 0) await results.flushed();
      else
        await new Promise<void>((resolve) => {
          lineOver = resolve;
        });
    }
  };

  /** All answers, or the error that ended them. */
  const answersOf = async (decoded: DecodedJob): Promise<LineEnd> => {
    const request = lineRequest(decoded.request, record);
    const bodies: JsonObject[] = [];
    const add = (outcome: Outcome): ErrorInfo | undefined => {
      const result = outcome.ok ? resultOf(outcome, decoded, model) : outcome;
      if (!result.ok) return result.error;
      bodies.push(result.value);
      return undefined;
    };
    if (!model.signature.decoupled) {
      const error = add(await caller.infer(request, { signal }));
      return error === undefined ? { ok: true, bodies } : { ok: false, error };
    }
    for await (const { outcome, last } of caller.inferStream(request, { signal })) {
      if (last && outcome.ok && outcome.response.outputs.length === 0) break;
      const error = add(outcome);
      if (error !== undefined) return { ok: false, error };
    }
    return { ok: true, bodies };
  };

  /** Until it has its outcome; undefined where the run ends before. */
  const outcomeOf = async (decoded: DecodedJob): Promise<LineEnd | undefined> => {
    let attempts = 0;
    while (!signal.aborted) {
      const end = await answersOf(decoded);
      if (signal.aborted) return undefined;
      if (end.ok) return end;
      const verdict = jobVerdict(end.error, model.name, false);
      if (verdict === 'final') return end;
      if (verdict === 'retry' && ++attempts >= record.attempts) return end;
      await pause(clock, verdict === 'later' ? LATER_MS : AGAIN_MS * attempts, signal);
    }
    return undefined;
  };

  /** Until Redis has answered. */
  const blobsOf = async (refs: readonly string[]): Promise<JobBlobs> => {
    while (refs.length > 0 && !signal.aborted) {
      try {
        return await payloads.read(refs);
      } catch (error) {
        log.debug({ err: error, batch: record.id }, 'blobs of a line, trying again');
        await pause(clock, BLOBS_AGAIN_MS, signal);
      }
    }
    return NO_BLOBS;
  };

  const runLine = async (line: number, parsed: ParsedLine, blobs: JobBlobs, size: number) => {
    running++;
    bytes += size;
    try {
      const read = parsed.ok ? readLine(model, parsed.given, blobs) : parsed.read;
      const end = read.ok ? await outcomeOf(read.decoded) : read;
      if (end === undefined) return;
      const { decoupled } = model.signature;
      if (end.ok) results.add(lineDone(line, read.customId, end.bodies, decoupled));
      else results.add(lineFailed(line, read.customId, end.error));
    } finally {
      running--;
      bytes -= size;
      lineOver();
    }
  };

  /** With the results that it has by then; what runs is cancelled. */
  const fail = async ({ code, message }: ErrorInfo) => {
    await results.flushed();
    await store.end(record.id, 'failed', { code, message });
    ending.abort();
  };

  /** Lines of a chunk; false where there is none. */
  const runChunk = async (number: number): Promise<boolean> => {
    const chunk = await store.chunk(record.id, number);
    if (chunk === undefined) return false;
    chunks.begun(number, chunk);
    for (const [index, text] of chunk.lines.entries()) {
      if (chunk.done[index] === true) continue;
      await room();
      const refusal = await space.refusal();
      if (refusal !== undefined) await fail(refusal);
      if (signal.aborted) return false;
      const parsed = parseLine(text);
      const blobs = parsed.ok ? await blobsOf(parsed.refs) : NO_BLOBS;
      if (signal.aborted) return false;
      const size = text.length + sizeOf(blobs);
      runLine(chunk.from + index, parsed, blobs, size).catch((error) =>
        log.error({ err: error, batch: record.id }, 'line not run'),
      );
      await nextTurn();
    }
    return true;
  };

  const run = async () => {
    try {
      for (let number = 0; !signal.aborted && (await runChunk(number)); number++);
    } catch (error) {
      // Whoever looks for batches begins it again.
      log.warn({ err: error, batch: record.id }, 'lines of a batch not read');
    }
    while (running > 0) {
      await new Promise<void>((resolve) => {
        lineOver = resolve;
      });
    }
    await results.flushed();
    ending.abort();
  };

  return {
    id: record.id,
    get running() {
      return running;
    },
    stop: () => ending.abort(),
    ended: run(),
  };
}

function sizeOf(blobs: JobBlobs): number {
  let bytes = 0;
  for (const data of blobs.values()) bytes += data.byteLength;
  return bytes;
}
