import type { DurationStatistics, ResponseStatistics, VersionStatistics } from '@nereid/protocol';
import { failedRequests, type ModelStatistics } from './model-statistics.ts';
import type { ResponseCounts } from './response-counts.ts';

const NONE: DurationStatistics = { count: 0, ns: 0 };

/** What has been counted of a version, as gateways are told it (extension_statistics.md). */
export function versionStatistics(name: string, version: string, counted: ModelStatistics): VersionStatistics {
  // Without a response cache each successful request was computed.
  const { success } = counted;
  return {
    name,
    version,
    lastInferenceMs: counted.lastInferenceMs,
    inferenceCount: counted.inferences,
    executionCount: counted.executions,
    inference: {
      success: { count: success, ns: counted.requestNs },
      fail: { count: failedRequests(counted.failure), ns: counted.failNs },
      queue: { count: success, ns: counted.queueNs },
      computeInput: { count: success, ns: counted.inputNs },
      computeInfer: { count: success, ns: counted.inferNs },
      computeOutput: { count: success, ns: counted.outputNs },
      cacheHit: NONE,
      cacheMiss: NONE,
    },
    responses: counted.responses.map(responseStatistics),
    batches: [...counted.batches]
      .sort(([a], [b]) => a - b)
      .map(([batchSize, { executions: count, inputNs, inferNs, outputNs }]) => ({
        batchSize,
        computeInput: { count, ns: inputNs },
        computeInfer: { count, ns: inferNs },
        computeOutput: { count, ns: outputNs },
      })),
  };
}

function responseStatistics(counts: ResponseCounts): ResponseStatistics {
  return {
    computeInfer: { count: counts.infer, ns: counts.inferNs },
    computeOutput: { count: counts.success, ns: counts.outputNs },
    success: { count: counts.success, ns: counts.successNs },
    fail: { count: counts.fail, ns: counts.failNs },
    emptyResponse: { count: counts.empty, ns: counts.emptyNs },
    cancel: { count: counts.cancel, ns: counts.cancelNs },
  };
}
