import type {
  BatchStatistics,
  DurationStatistics,
  InferenceStatistics,
  ResponseStatistics,
  VersionStatistics,
} from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { sendError, sendJson } from './errors.ts';
import { modelOf } from './model-path.ts';

/** GET /v2/models/{m}[/versions/{v}]/stats */
export function modelStatistics(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  sendStatistics(gateway, reply, name, version);
}

/** GET /v2/models/stats: of all models. */
export function allStatistics(gateway: Gateway, _request: FastifyRequest, reply: FastifyReply): void {
  sendStatistics(gateway, reply, '', '');
}

function sendStatistics(gateway: Gateway, reply: FastifyReply, name: string, version: string): void {
  // Never rejects.
  void gateway.statistics.of(name, version).then((answer) => {
    if (answer.ok) sendJson(reply, JSON.stringify({ model_stats: answer.value.map(versionJson) }));
    else sendError(reply, answer.error);
  });
}

/** Members in Triton's order (http_server.cc). */
function versionJson(statistics: VersionStatistics) {
  const { responses, batches } = statistics;
  return {
    name: statistics.name,
    version: statistics.version,
    last_inference: statistics.lastInferenceMs,
    inference_count: statistics.inferenceCount,
    execution_count: statistics.executionCount,
    inference_stats: inferenceJson(statistics.inference),
    response_stats: Object.fromEntries(responses.map((response, index) => [index, responseJson(response)])),
    batch_stats: batches.map(batchJson),
    // Triton's own backends report none either.
    memory_usage: [],
  };
}

function inferenceJson(statistics: InferenceStatistics) {
  return {
    success: durationJson(statistics.success),
    fail: durationJson(statistics.fail),
    queue: durationJson(statistics.queue),
    ...computeJson(statistics),
    cache_hit: durationJson(statistics.cacheHit),
    cache_miss: durationJson(statistics.cacheMiss),
  };
}

function batchJson(statistics: BatchStatistics) {
  return { batch_size: statistics.batchSize, ...computeJson(statistics) };
}

function responseJson(statistics: ResponseStatistics) {
  return {
    compute_infer: durationJson(statistics.computeInfer),
    compute_output: durationJson(statistics.computeOutput),
    success: durationJson(statistics.success),
    fail: durationJson(statistics.fail),
    empty_response: durationJson(statistics.emptyResponse),
    cancel: durationJson(statistics.cancel),
  };
}

function computeJson({
  computeInput,
  computeInfer,
  computeOutput,
}: Pick<BatchStatistics, 'computeInput' | 'computeInfer' | 'computeOutput'>) {
  return {
    compute_input: durationJson(computeInput),
    compute_infer: durationJson(computeInfer),
    compute_output: durationJson(computeOutput),
  };
}

function durationJson({ count, ns }: DurationStatistics) {
  return { count, ns };
}
