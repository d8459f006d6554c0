/** One batch on an instance's thread or process: opened, run, and made into what goes back to the worker. */
import type { BackendInstance, Batch, BatchRequest, BatchResult } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import {
  type BatchTiming,
  CANCELLED,
  type ErrorInfo,
  errorInfo,
  type ResponseTimes,
  type Tensor,
} from '@nereid/protocol';
import { type OpenedBatch, openBatch } from './batch-frame.ts';
import { checkedExecute } from './checked-execute.ts';
import { compactOutcomes } from './compact-outcomes.ts';
import type { BatchCancels, InstanceCancels } from './instance-cancels.ts';
import {
  type ChunkReport,
  type InstanceReport,
  isBuffers,
  type RequestDetail,
  type RunOutcome,
  type StreamChunk,
} from './instance-messages.ts';
import { splitTensor } from './join-split.ts';
import { createResponseClock } from './response-times.ts';
import { packResult, setOutputNs } from './result-frame.ts';
import { runSingly } from './run-singly.ts';
import { type ChunkLine, hasStreams, sendStreams, wholeOutcome } from './send-streams.ts';
import type { SequenceRunner } from './sequence-run.ts';
import { sharedNowNs } from './shared-now.ts';
import { RETURNED_BYTES_MIN } from './spare-frames.ts';

export interface LoadedModel {
  readonly signature: ModelSignature;
  readonly version: string;
  readonly instance: BackendInstance;
  /** Of a model that keeps sequences: what runs its batches on `instance`. */
  readonly sequences?: SequenceRunner | undefined;
}

/** A report, the buffers that it gives away, and the frame of its batch where that may be used again. */
export interface PackedReport {
  readonly report: InstanceReport;
  readonly transfer: readonly ArrayBuffer[];
  readonly spare?: ArrayBuffer;
}

/**
 * Runs a batch. Never throws: what fails becomes the outcome of its requests. A failed batch of
 * several requests is split and each tried alone once (run-singly.ts), but not one of steps of sequences,
 * which may have taken effect. A batch
 * all of whose requests are cancelled by now is not run; of another, those that are cancelled run
 * along, and the worker drops what became of them. Answers of a decoupled model go out by `line` as
 * they come; the batch is over once all its streams have ended.
 */
export async function runBatch(
  model: LoadedModel,
  frame: ArrayBuffer,
  details: readonly RequestDetail[],
  instanceCancels: InstanceCancels,
  line: ChunkLine,
): Promise<PackedReport> {
  const startNs = sharedNowNs();
  const opened = openBatch(model.signature, frame);
  const cancels = instanceCancels.begin(opened.sequence);
  const { needsRequests } = model.instance;
  let runNs = startNs;
  let endNs = startNs;
  const timing = (): BatchTiming => ({
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
    const returned = await executeOrUndefined(model, batch, details);
    if (returned === undefined) {
      const { outcomes, responses } = await runSingly(model, opened, batch.requests, cancels, line);
      endNs = sharedNowNs();
      return packOutcomes(opened.sequence, timing, outcomes, responses);
    }
    if (model.signature.decoupled && hasStreams(returned)) {
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

/** Undefined where the batch has failed and its requests are to be tried one by one. */
async function executeOrUndefined(
  model: LoadedModel,
  batch: Batch,
  details: readonly RequestDetail[],
): Promise<BatchResult | undefined> {
  if (model.sequences !== undefined) return model.sequences.execute(batch, details);
  try {
    return await checkedExecute(model.signature, model.instance, batch);
  } catch (failure) {
    if (batch.rows.length === 1) throw failure;
    return undefined;
  }
}

function allFailed(opened: OpenedBatch, executed: boolean, timing: BatchTiming, error: ErrorInfo): PackedReport {
  const outcomes = opened.rows.map((): RunOutcome => ({ ok: false, error }));
  return { report: { kind: 'outcomes', sequence: opened.sequence, executed, timing, outcomes }, transfer: [] };
}

function batchRequests(
  model: LoadedModel,
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
      place: { sequence: opened.sequence, position: index },
      get signal() {
        return cancels.signal(index);
      },
    };
  });
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
  model: LoadedModel,
  sequence: number,
  timing: () => BatchTiming,
  result: BatchResult,
): PackedReport {
  if (result.kind === 'joined') {
    return packFrame(model, sequence, timing, result.outputs, true);
  }
  const outcomes = result.outcomes.map(wholeOutcome);
  const only = outcomes.length === 1 ? outcomes[0] : undefined;
  if (only?.ok !== true || only.again === true || Object.keys(only.parameters).length > 0) {
    return packOutcomes(sequence, timing, outcomes);
  }
  // What a model returned for a request may still be its own: it is copied.
  return packFrame(model, sequence, timing, only.outputs, false);
}

function packOutcomes(
  sequence: number,
  timing: () => BatchTiming,
  outcomes: readonly RunOutcome[],
  responses?: ResponseTimes,
): PackedReport {
  const { compact, buffer } = compactOutcomes(outcomes);
  const report = { kind: 'outcomes', sequence, executed: true, timing: timing(), outcomes: compact } as const;
  return { report: responses === undefined ? report : { ...report, responses }, transfer: [buffer] };
}

function packFrame(
  model: LoadedModel,
  sequence: number,
  timing: () => BatchTiming,
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
