/** One batch on an instance's thread: opened, run, and made into what goes back to the worker. */
import type { BackendInstance, Batch, BatchRequest, BatchResult, JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import {
  CANCELLED,
  type ErrorInfo,
  elementCount,
  errorInfo,
  NereidError,
  type ResponseTimes,
  type Tensor,
} from '@nereid/protocol';
import { type OpenedBatch, openBatch } from './batch-frame.ts';
import { splitJoined, splitTensor } from './join-split.ts';
import { createResponseClock } from './response-times.ts';
import { packResult, setOutputNs } from './result-frame.ts';
import { sharedNowNs } from './shared-now.ts';
import { RETURNED_BYTES_MIN } from './spare-frames.ts';
import type { BatchCancels, ThreadCancels } from './thread-cancels.ts';
import {
  type ChunkReport,
  isBuffers,
  type RequestDetail,
  type StreamChunk,
  type ThreadOutcome,
  type ThreadReport,
  type ThreadTiming,
} from './thread-messages.ts';
import { type ChunkLine, hasStreams, isStream, plainOutcome, sendStreams } from './thread-streams.ts';

export interface ThreadModel {
  readonly signature: ModelSignature;
  readonly version: string;
  readonly instance: BackendInstance;
}

/** A report, the buffers that it gives away, and the frame of its batch where that may be used again. */
export interface PackedReport {
  readonly report: ThreadReport;
  readonly transfer: readonly ArrayBuffer[];
  readonly spare?: ArrayBuffer;
}

/**
 * Runs a batch. Never throws: what fails becomes the outcome of its requests. A failed batch of
 * several requests is split and each tried alone once, so that one bad request does not take the
 * others with it; models that see requests one by one say themselves which of them fail. A batch
 * all of whose requests are cancelled by now is not run; of another, those that are cancelled run
 * along, and the worker drops what became of them. Answers of a decoupled model go out by `line` as
 * they come; the batch is over once all its streams have ended.
 */
export async function runBatch(
  model: ThreadModel,
  frame: ArrayBuffer,
  details: readonly RequestDetail[],
  threadCancels: ThreadCancels,
  line: ChunkLine,
): Promise<PackedReport> {
  const startNs = sharedNowNs();
  const opened = openBatch(model.signature, frame);
  const cancels = threadCancels.begin(opened.sequence);
  const { needsRequests } = model.instance;
  let runNs = startNs;
  let endNs = startNs;
  const timing = (): ThreadTiming => ({
    waitNs: startNs - opened.receivedNs,
    inputNs: runNs - startNs,
    inferNs: endNs - runNs,
    outputNs: sharedNowNs() - endNs,
  });
  if (cancels.areAll(opened.rows.length)) return allFailed(opened, false, timing(), CANCELLED);
  try {
    const batch: Batch = {
      requests: needsRequests ? batchRequests(model, opened, details, cancels) : [],
      rows: opened.rows,
      joined: opened.joined,
      wantedOutputs: opened.wantedOutputs,
    };
    runNs = sharedNowNs();
    const returned = await execute(model, opened, batch, cancels);
    const streams = model.signature.decoupled && hasStreams(returned);
    if (streams) {
      const times = createResponseClock(runNs);
      const outcomes = await sendStreams(opened.sequence, returned.outcomes, cancels, line, times);
      endNs = sharedNowNs();
      return packOutcomes(opened.sequence, timing, outcomes, times.times());
    }
    endNs = sharedNowNs();
    const packed = packReport(model, opened.sequence, timing, returned);
    return needsRequests ? packed : withFrame(packed, frame);
  } catch (failure) {
    if (endNs < runNs) endNs = sharedNowNs();
    return allFailed(opened, true, timing(), errorInfo(failure));
  }
}

function allFailed(opened: OpenedBatch, executed: boolean, timing: ThreadTiming, error: ErrorInfo): PackedReport {
  const outcomes = opened.rows.map((): ThreadOutcome => ({ ok: false, error }));
  return { report: { kind: 'outcomes', sequence: opened.sequence, executed, timing, outcomes }, transfer: [] };
}

async function execute(
  model: ThreadModel,
  opened: OpenedBatch,
  batch: Batch,
  cancels: BatchCancels,
): Promise<BatchResult | ThreadOutcome[]> {
  try {
    return await checkedExecute(model, batch);
  } catch (failure) {
    if (model.instance.needsRequests || opened.rows.length === 1) throw failure;
    return runSingly(model, opened, cancels);
  }
}

async function checkedExecute(model: ThreadModel, batch: Batch): Promise<BatchResult> {
  const result = await model.instance.execute(batch);
  if (result.kind === 'each' && result.outcomes.length !== batch.rows.length) {
    const text = `model '${model.signature.name}' gave ${result.outcomes.length} outcomes for ${batch.rows.length} requests`;
    throw new NereidError('INTERNAL', text);
  }
  if (result.kind === 'joined') for (const output of result.outputs) checkParts(model.signature, output, batch.rows);
  return result;
}

/** Throws INTERNAL where an output cannot be split among the requests. */
function checkParts(signature: ModelSignature, output: JoinedTensor, rows: readonly number[]): void {
  const { shape, shapes } = output;
  if (shapes === undefined && signature.maxBatchSize === 0) return;
  let total = 0;
  if (shapes === undefined) for (const count of rows) total += count;
  else for (const own of shapes) total += elementCount(own) ?? 0;
  if (shape[0] === total) return;
  const what = `output '${output.name}' of model '${signature.name}' has`;
  throw new NereidError(
    'INTERNAL',
    shapes === undefined
      ? `${what} shape [${shape.join(',')}] for a batch of ${total} rows`
      : `${what} ${shape[0]} elements for a batch whose requests are to get ${total} by its batch_output`,
  );
}

async function runSingly(model: ThreadModel, opened: OpenedBatch, cancels: BatchCancels): Promise<ThreadOutcome[]> {
  const inputs = opened.joined.map((input) => splitJoined(input, opened.rows));
  const outcomes: ThreadOutcome[] = [];
  for (const [index, rows] of opened.rows.entries()) {
    const joined = inputs.flatMap((parts) => parts[index] ?? []);
    if (cancels.isCancelled(index)) {
      outcomes.push({ ok: false, error: CANCELLED });
      continue;
    }
    try {
      const result = await checkedExecute(model, {
        requests: [],
        rows: [rows],
        joined,
        wantedOutputs: opened.wantedOutputs,
      });
      outcomes.push(
        result.kind === 'joined'
          ? { ok: true, parameters: {}, outputs: result.outputs.flatMap((output) => splitTensor(output, [rows])) }
          : threadOutcome(result.outcomes[0]),
      );
    } catch (failure) {
      outcomes.push({ ok: false, error: errorInfo(failure) });
    }
  }
  return outcomes;
}

function batchRequests(
  model: ThreadModel,
  opened: OpenedBatch,
  details: readonly RequestDetail[],
  cancels: BatchCancels,
): BatchRequest[] {
  const whole = details.length === 1 && opened.joined.every((input) => input.shapes === undefined);
  const inputs = whole ? [] : opened.joined.map((input) => splitTensor(input, opened.rows));
  return details.map((detail, index) => {
    const [id, correlationId, sequenceStart, sequenceEnd, priority, timeoutUs, parameters, requestedOutputs] = detail;
    return {
      request: {
        modelName: model.signature.name,
        modelVersion: model.version,
        id,
        correlationId,
        sequenceStart,
        sequenceEnd,
        priority,
        timeoutUs,
        parameters,
        inputs: whole ? opened.joined : inputs.flatMap((parts) => parts[index] ?? []),
        requestedOutputs,
      },
      get signal() {
        return cancels.signal(index);
      },
    };
  });
}

type BackendOutcome = Extract<BatchResult, { kind: 'each' }>['outcomes'][number];

function threadOutcome(outcome: BackendOutcome | undefined): ThreadOutcome {
  if (outcome !== undefined && !isStream(outcome)) return plainOutcome(outcome);
  const message = 'the model answered one request with a stream, which its configuration does not say';
  return { ok: false, error: { code: 'INTERNAL', message } };
}

/** An answer of a stream; its outputs are copied, since what a model gave may still be its own. */
export function packChunk(
  sequence: number,
  { position, outcome, last }: StreamChunk,
): { readonly report: ChunkReport; readonly transfer: readonly ArrayBuffer[] } {
  const { compact, buffer } = compactOutcomes([outcome]);
  const [copied = outcome] = compact;
  const report: ChunkReport = { kind: 'chunk', sequence, position, outcome: copied, last, bytes: buffer.byteLength };
  return { report, transfer: [buffer] };
}

function packReport(
  model: ThreadModel,
  sequence: number,
  timing: () => ThreadTiming,
  result: BatchResult | ThreadOutcome[],
): PackedReport {
  if (!Array.isArray(result) && result.kind === 'joined') {
    return packFrame(model, sequence, timing, result.outputs, true);
  }
  const outcomes = Array.isArray(result) ? result : result.outcomes.map(threadOutcome);
  const only = outcomes.length === 1 ? outcomes[0] : undefined;
  if (only?.ok !== true || Object.keys(only.parameters).length > 0) {
    return packOutcomes(sequence, timing, outcomes);
  }
  // What a model returned for a request may still be its own: it is copied.
  return packFrame(model, sequence, timing, only.outputs, false);
}

function packOutcomes(
  sequence: number,
  timing: () => ThreadTiming,
  outcomes: readonly ThreadOutcome[],
  responses?: ResponseTimes,
): PackedReport {
  const { compact, buffer } = compactOutcomes(outcomes);
  const report = { kind: 'outcomes', sequence, executed: true, timing: timing(), outcomes: compact } as const;
  return { report: responses === undefined ? report : { ...report, responses }, transfer: [buffer] };
}

function packFrame(
  model: ThreadModel,
  sequence: number,
  timing: () => ThreadTiming,
  outputs: readonly Tensor[],
  giveAway: boolean,
): PackedReport {
  const { frame, others } = packResult(model.signature, sequence, timing(), outputs, giveAway);
  setOutputNs(frame, timing().outputNs);
  return others.length === 0
    ? { report: frame, transfer: [frame] }
    : { report: [frame, ...others], transfer: [frame, ...others] };
}

/**
 * Gives a large batch's frame back to be used again. Not where a model has seen the requests one by
 * one: its own code may have kept a view on them.
 */
function withFrame(packed: PackedReport, frame: ArrayBuffer): PackedReport {
  const framed = packed.report instanceof ArrayBuffer || isBuffers(packed.report);
  if (!framed || frame.byteLength < RETURNED_BYTES_MIN || packed.transfer.includes(frame)) return packed;
  return { ...packed, spare: frame };
}

/** Copies all outputs into one buffer: a cloned view would take its whole buffer along. */
function compactOutcomes(outcomes: readonly ThreadOutcome[]) {
  let size = 0;
  for (const outcome of outcomes) if (outcome.ok) for (const { data } of outcome.outputs) size += data.byteLength;
  const bytes = new Uint8Array(size);
  let offset = 0;
  const move = (tensor: Tensor): Tensor => {
    bytes.set(tensor.data, offset);
    const data = bytes.subarray(offset, offset + tensor.data.byteLength);
    offset += tensor.data.byteLength;
    return { ...tensor, data };
  };
  const compact = outcomes.map((outcome) =>
    outcome.ok ? { ...outcome, outputs: outcome.outputs.map(move) } : outcome,
  );
  return { compact, buffer: bytes.buffer };
}
