import type { BatchTiming, CachedMessage, FailureReason } from '@nereid/protocol';
import type { CloseCounts } from './close-counts.ts';
import type { ResponseCounts } from './response-counts.ts';

export const FAILURE_REASONS: readonly FailureReason[] = ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'];

/** Executions with so many rows, and how long their phases took in all. */
export interface BatchCounts {
  executions: number;
  inputNs: number;
  inferNs: number;
  outputNs: number;
}

/**
 * What one model version has done since it was loaded, counted as Triton does (infer_stats.cc).
 * Plain numbers, changed on the request's path and read when somebody looks.
 */
export interface ModelStatistics {
  /** Successful requests, also those that were answered without a run; one of many rows counts once. */
  success: number;
  readonly failure: Record<FailureReason, number>;
  failNs: number;
  /** Rows of successful requests that ran. */
  inferences: number;
  /** Batches that reached the model, failed ones too. */
  executions: number;
  /** When the last of them ended, wall clock, milliseconds since the epoch; 0 for none. */
  lastInferenceMs: number;
  /** Sums over successful requests. Each request of a batch adds the batch's whole phases. */
  requestNs: number;
  queueNs: number;
  inputNs: number;
  inferNs: number;
  outputNs: number;
  /** The same in microseconds, each addend cut to whole ones as Triton cuts those of its metrics. */
  requestUs: number;
  queueUs: number;
  inputUs: number;
  inferUs: number;
  outputUs: number;
  /** Requests that callers answered by an answer that they had kept: a part of `success`. */
  cacheHits: number;
  hitNs: number;
  hitUs: number;
  /** Requests that ran for want of one. */
  cacheMisses: number;
  missNs: number;
  missUs: number;
  /** By rows; no more than the model's largest batch has. */
  readonly batches: Map<number, BatchCounts>;
  /** Of those that this owner has sent, or an earlier one kept. */
  readonly closes: CloseCounts;
  /** Of a decoupled model, by the position of the answer in its stream. */
  readonly responses: ResponseCounts[];
}

export function createModelStatistics(): ModelStatistics {
  return {
    success: 0,
    failure: { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 },
    failNs: 0,
    inferences: 0,
    executions: 0,
    lastInferenceMs: 0,
    requestNs: 0,
    queueNs: 0,
    inputNs: 0,
    inferNs: 0,
    outputNs: 0,
    requestUs: 0,
    queueUs: 0,
    inputUs: 0,
    inferUs: 0,
    outputUs: 0,
    cacheHits: 0,
    hitNs: 0,
    hitUs: 0,
    cacheMisses: 0,
    missNs: 0,
    missUs: 0,
    batches: new Map(),
    closes: new Map(),
    responses: [],
  };
}

/** Counts a successful request: `arrivedUs` here, `sentUs` to its worker, `doneUs` told of by it. */
export function countSuccess(
  statistics: ModelStatistics,
  rows: number,
  arrivedUs: number,
  sentUs: number,
  doneUs: number,
  timing: BatchTiming,
): void {
  const queueNs = Math.trunc((sentUs - arrivedUs) * 1000 + timing.waitNs);
  const inputNs = Math.trunc(timing.inputNs);
  const inferNs = Math.trunc(timing.inferNs);
  const outputNs = Math.trunc(timing.outputNs);
  // Two clocks measure it, and what an earlier owner sent out began before it came here.
  const requestNs = Math.max(Math.trunc((doneUs - arrivedUs) * 1000), queueNs + inputNs + inferNs + outputNs);
  statistics.success++;
  statistics.inferences += rows;
  statistics.requestNs += requestNs;
  statistics.queueNs += queueNs;
  statistics.inputNs += inputNs;
  statistics.inferNs += inferNs;
  statistics.outputNs += outputNs;
  statistics.requestUs += Math.trunc(requestNs / 1000);
  statistics.queueUs += Math.trunc(queueNs / 1000);
  statistics.inputUs += Math.trunc(inputNs / 1000);
  statistics.inferUs += Math.trunc(inferNs / 1000);
  statistics.outputUs += Math.trunc(outputNs / 1000);
}

/**
 * Counts what callers answered without a run, and what they looked for in vain. A miss was counted as a success when it
 * ran, without the time that looking for its answer and keeping it took (infer_stats.cc, UpdateSuccessCacheMiss).
 */
export function countCached(statistics: ModelStatistics, told: CachedMessage): void {
  const { hits, hitRequest, hitQueue, hitLookup, misses, miss } = told;
  statistics.success += hits;
  statistics.cacheHits += hits;
  statistics.requestNs += hitRequest.ns + miss.ns;
  statistics.requestUs += hitRequest.us + miss.us;
  statistics.queueNs += hitQueue.ns;
  statistics.queueUs += hitQueue.us;
  statistics.hitNs += hitLookup.ns;
  statistics.hitUs += hitLookup.us;
  statistics.cacheMisses += misses;
  statistics.missNs += miss.ns;
  statistics.missUs += miss.us;
}

export function countFailure(
  statistics: ModelStatistics,
  reason: FailureReason,
  arrivedUs: number,
  endedUs: number,
): void {
  statistics.failure[reason]++;
  statistics.failNs += Math.trunc((endedUs - arrivedUs) * 1000);
}

/** Counts a batch that reached the model. `rows`: of all its requests, whatever became of them. */
export function countExecution(statistics: ModelStatistics, rows: number, timing: BatchTiming, wallMs: number): void {
  statistics.executions++;
  // The wall clock may be set back.
  if (wallMs > statistics.lastInferenceMs) statistics.lastInferenceMs = wallMs;
  const batch = batchCounts(statistics, rows);
  batch.executions++;
  batch.inputNs += Math.trunc(timing.inputNs);
  batch.inferNs += Math.trunc(timing.inferNs);
  batch.outputNs += Math.trunc(timing.outputNs);
}

/** The counts of batches of that size, from 0 where there was none yet. */
export function batchCounts({ batches }: ModelStatistics, rows: number): BatchCounts {
  let counts = batches.get(rows);
  if (counts === undefined) {
    counts = { executions: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
    batches.set(rows, counts);
  }
  return counts;
}

/** Requests that have ended, well or not. */
export function endedRequests({ success, failure }: ModelStatistics): number {
  return success + failedRequests(failure);
}

export function failedRequests(failure: ModelStatistics['failure']): number {
  return failure.REJECTED + failure.CANCELED + failure.BACKEND + failure.OTHER;
}
