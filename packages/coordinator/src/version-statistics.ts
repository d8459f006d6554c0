import type { ResponseStatistics, VersionStatistics } from '@nereid/protocol';
import { failedRequests, type ModelStatistics } from './model-statistics.ts';
import type { ResponseCounts } from './response-counts.ts';

/** What has been counted of a version, as gateways are told it (extension_statistics.md). */
export function versionStatistics(name: string, version: string, counted: ModelStatistics): VersionStatistics {
  const { success } = counted;
  // What callers answered by answers that they had kept never ran.
  const computed = success - counted.cacheHits;
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
      computeInput: { count: computed, ns: counted.inputNs },
      computeInfer: { count: computed, ns: counted.inferNs },
      computeOutput: { count: computed, ns: counted.outputNs },
      cacheHit: { count: counted.cacheHits, ns: counted.hitNs },
      cacheMiss: { count: counted.cacheMisses, ns: counted.missNs },
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
