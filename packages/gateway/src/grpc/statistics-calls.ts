import type {
  BatchStatistics,
  DurationStatistics,
  InferenceStatistics,
  ResponseStatistics,
  VersionStatistics,
} from '@nereid/protocol';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import type { GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** What has been counted of models. */
export function statisticsCalls({ gateway }: CallContext): readonly GrpcCall[] {
  return [
    unary(GRPCInferenceService.method.modelStatistics, async ({ name, version }) => {
      const answer = await gateway.statistics.of(name, version);
      return answer.ok ? { ok: true, value: { modelStats: answer.value.map(versionMessage) } } : answer;
    }),
  ];
}

function versionMessage(statistics: VersionStatistics) {
  const responses = statistics.responses.map((response, index) => [index, responseMessage(response)] as const);
  return {
    name: statistics.name,
    version: statistics.version,
    lastInference: whole(statistics.lastInferenceMs),
    inferenceCount: whole(statistics.inferenceCount),
    executionCount: whole(statistics.executionCount),
    inferenceStats: inferenceMessage(statistics.inference),
    batchStats: statistics.batches.map(batchMessage),
    memoryUsage: [],
    responseStats: Object.fromEntries(responses),
  };
}

function inferenceMessage(statistics: InferenceStatistics) {
  return {
    success: duration(statistics.success),
    fail: duration(statistics.fail),
    queue: duration(statistics.queue),
    computeInput: duration(statistics.computeInput),
    computeInfer: duration(statistics.computeInfer),
    computeOutput: duration(statistics.computeOutput),
    cacheHit: duration(statistics.cacheHit),
    cacheMiss: duration(statistics.cacheMiss),
  };
}

function batchMessage(statistics: BatchStatistics) {
  return {
    batchSize: whole(statistics.batchSize),
    computeInput: duration(statistics.computeInput),
    computeInfer: duration(statistics.computeInfer),
    computeOutput: duration(statistics.computeOutput),
  };
}

function responseMessage(statistics: ResponseStatistics) {
  return {
    computeInfer: duration(statistics.computeInfer),
    computeOutput: duration(statistics.computeOutput),
    success: duration(statistics.success),
    fail: duration(statistics.fail),
    emptyResponse: duration(statistics.emptyResponse),
    cancel: duration(statistics.cancel),
  };
}

function duration({ count, ns }: DurationStatistics) {
  return { count: whole(count), ns: whole(ns) };
}

function whole(value: number): bigint {
  return BigInt(Math.trunc(value));
}
