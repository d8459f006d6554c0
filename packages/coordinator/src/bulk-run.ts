import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Caller } from '@nereid/caller';
import type { DecodedJob, ErrorInfo, JsonObject, Outcome } from '@nereid/protocol';
import { type Clock, type Log, pause } from '@nereid/runtime';
import type { BulkRecord, BulkStore } from '@nereid/transport';
import { lineDone, lineFailed, lineRequest, readLine } from './bulk-line.ts';
import { createBulkResults } from './bulk-results.ts';
import { resultOf } from './job-request.ts';
import { jobVerdict } from './job-verdict.ts';
import type { OwnedModel } from './owned-model.ts';

/** A line that cannot run now is tried again after this, which counts no attempt. */
const LATER_MS = 500;
/** Before another attempt of a line that failed, times the attempts made. */
const AGAIN_MS = 200;
/** Text of lines that run at a time. */
const RUNNING_BYTES_MAX = 16_777_216;

export interface BulkRunParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: BulkStore;
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
  const { clock, log, store, model, record, caller } = parts;
  const ending = new AbortController();
  const { signal } = ending;
  // One for each line.
  setMaxListeners(0, signal);
  let running = 0;
  let bytes = 0;
  let lineOver = () => {};

  const results = createBulkResults({
    ...{ clock, log, store, signal, batch: record.id },
    written(state) {
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

  const runLine = async (line: number, text: string) => {
    running++;
    bytes += text.length;
    try {
      const read = readLine(model, text);
      const end = read.ok ? await outcomeOf(read.decoded) : read;
      if (end === undefined) return;
      const { decoupled } = model.signature;
      if (end.ok) results.add(lineDone(line, read.customId, end.bodies, decoupled));
      else results.add(lineFailed(line, read.customId, end.error));
    } finally {
      running--;
      bytes -= text.length;
      lineOver();
    }
  };

  /** Lines of a chunk; false where there is none. */
  const runChunk = async (number: number): Promise<boolean> => {
    const chunk = await store.chunk(record.id, number);
    if (chunk === undefined) return false;
    for (const [index, text] of chunk.lines.entries()) {
      if (chunk.done[index] === true) continue;
      await room();
      if (signal.aborted) return false;
      runLine(chunk.from + index, text).catch((error) => log.error({ err: error, batch: record.id }, 'line not run'));
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
