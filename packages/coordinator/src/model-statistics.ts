import type { BatchTiming, FailureReason } from '@nereid/protocol';

/**
 * What one model version has done since it was loaded, counted as Triton does (infer_stats.cc).
 * Plain numbers, changed on the request's path and read when somebody looks.
 */
export interface ModelStatistics {
  /** Successful requests; one of many rows counts once. */
  success: number;
  readonly failure: Record<FailureReason, number>;
  /** Rows of successful requests. */
  inferences: number;
  /** Batches that reached the model, failed ones too. */
  executions: number;
  /** Sums over successful requests, microseconds. Each request of a batch adds the batch's whole phases. */
  requestUs: number;
  queueUs: number;
  inputUs: number;
  inferUs: number;
  outputUs: number;
}

export function createModelStatistics(): ModelStatistics {
  return {
    success: 0,
    failure: { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 },
    inferences: 0,
    executions: 0,
    requestUs: 0,
    queueUs: 0,
    inputUs: 0,
    inferUs: 0,
    outputUs: 0,
  };
}

/** Where a request's time went, microseconds. */
export interface RequestTimes {
  readonly arrivedUs: number;
  /** Sent to its worker. */
  readonly sentUs: number;
  readonly doneUs: number;
}

/** Counts a successful request. Each duration is cut to whole microseconds, as Triton cuts its own. */
export function countSuccess(
  statistics: ModelStatistics,
  rows: number,
  times: RequestTimes,
  timing: BatchTiming,
): void {
  statistics.success++;
  statistics.inferences += rows;
  statistics.requestUs += Math.trunc(times.doneUs - times.arrivedUs);
  statistics.queueUs += Math.trunc(times.sentUs - times.arrivedUs + timing.waitNs / 1000);
  statistics.inputUs += Math.trunc(timing.inputNs / 1000);
  statistics.inferUs += Math.trunc(timing.inferNs / 1000);
  statistics.outputUs += Math.trunc(timing.outputNs / 1000);
}
