/**
 * Triton's flags that change nothing in this version. They are accepted, so that a command line
 * written for `tritonserver` starts, and each one that is set is warned about once, by name.
 */
import { z } from 'zod';
import {
  EVERY_ROLE,
  type FlagMeta,
  type FlagRole,
  type FlagTopic,
  flagMetas,
  GATEWAY,
  MODEL_ROLES,
} from './flag-meta.ts';

type Extra = Pick<FlagMeta, 'form' | 'agrees'>;

/** The flags of one topic that have no effect for the same reason. */
function inert(topic: FlagTopic, roles: readonly FlagRole[], noEffect: string) {
  const register = <S extends z.ZodType>(schema: S, description: string, extra: Extra) => {
    flagMetas.add(schema, { topic, roles, description, noEffect, ...extra });
    return schema;
  };
  return {
    boolean: (fallback: boolean, description: string, extra: Extra = {}) =>
      register(z.boolean().default(fallback), description, { agrees: 'false', ...extra }),
    integer: (fallback: number, description: string, extra: Extra = {}) =>
      register(z.int().default(fallback), description, extra),
    number: (fallback: number, description: string, extra: Extra = {}) =>
      register(z.number().default(fallback), description, extra),
    text: (fallback: string, description: string, extra: Extra = {}) =>
      register(z.string().default(fallback), description, extra),
    repeated: (form: string, description: string) => register(z.array(z.string()).default([]), description, { form }),
  };
}

const agents = inert('Models', MODEL_ROLES, 'the checksum agent is built in, and agents of libraries are not run');
const libraries = inert('Models', MODEL_ROLES, 'backends are part of the server, not libraries in a folder');
const eventLoop = inert('HTTP', GATEWAY, 'the HTTP server has one thread and a port of its own');
const grpcThreads = inert('gRPC', GATEWAY, 'the gRPC server has one thread, a port of its own and no pools');
const gauges = inert('Metrics', EVERY_ROLE, 'metrics of processors and GPUs are not there yet');
const metricsConfig = inert('Metrics', EVERY_ROLE, 'latency histograms and summaries are not there yet');
const caches = inert('Models', EVERY_ROLE, 'caches are part of the server, not libraries in a folder');
const pools = inert(
  'Hardware',
  MODEL_ROLES,
  'memory pools and GPU peer access are not used: tensors move between threads without a copy',
);
const hardware = inert('Hardware', MODEL_ROLES, 'every GPU is used, whatever its age and however full its memory is');
const cloud = inert('Cloud', GATEWAY, 'the SageMaker and Vertex AI endpoints are not there');

export const inertSchema = z.strictObject({
  repoagentDirectory: agents.text('/opt/tritonserver/repoagents', 'Where repository agents stand.'),
  backendDirectory: libraries.text('/opt/tritonserver/backends', 'Where backends stand.'),
  cacheDirectory: caches.text('/opt/tritonserver/caches', 'Where cache implementations stand.'),

  reuseHttpPort: eventLoop.boolean(false, 'Let several servers listen on the HTTP port.'),
  httpThreadCount: eventLoop.integer(8, 'Threads that serve HTTP.'),

  reuseGrpcPort: grpcThreads.boolean(false, 'Let several servers listen on the gRPC port.'),
  grpcInferThreadCount: grpcThreads.integer(2, 'Threads that serve gRPC inference.'),
  grpcInferAllocationPoolSize: grpcThreads.integer(8, 'Request objects kept for reuse.'),
  grpcMaxResponsePoolSize: grpcThreads.integer(2_147_483_647, 'Response objects kept for reuse.'),

  allowGpuMetrics: gauges.boolean(true, 'Export metrics of the GPUs.'),
  allowCpuMetrics: gauges.boolean(true, 'Export metrics of the processor.'),
  metricsIntervalMs: gauges.integer(2_000, 'Milliseconds between two readings of those metrics.'),
  metricsConfig: metricsConfig.repeated('<name>=<value>', 'A setting of the metrics, e.g. `histogram_latencies=true`.'),

  enablePeerAccess: pools.boolean(true, 'Let GPUs read each other.'),
  pinnedMemoryPoolByteSize: pools.integer(268_435_456, 'Bytes of pinned memory.'),
  cudaMemoryPoolByteSize: pools.repeated('<gpu>:<bytes>', 'Bytes of a memory pool on a GPU.'),
  cudaVirtualAddressSize: pools.repeated('<gpu>:<bytes>', "Bytes of a GPU's virtual addresses."),
  bufferManagerThreadCount: pools.integer(0, 'Threads that copy tensors.', { agrees: '0' }),
  minSupportedComputeCapability: hardware.number(6, 'The oldest GPU that is used.'),
  modelLoadGpuLimit: hardware.repeated('<device>:<fraction>', "How much of a GPU's memory loading may fill."),

  allowSagemaker: cloud.boolean(false, 'Serve the SageMaker endpoint.'),
  sagemakerPort: cloud.integer(8080, 'Its port.'),
  sagemakerSafePortRange: cloud.text('', 'The ports that it may use.', { form: '<from>-<to>' }),
  sagemakerThreadCount: cloud.integer(8, 'Its threads.'),
  allowVertexAi: cloud.boolean(false, 'Serve the Vertex AI endpoint.'),
  vertexAiPort: cloud.integer(8080, 'Its port.'),
  vertexAiThreadCount: cloud.integer(8, 'Its threads.'),
  vertexAiDefaultModel: cloud.text('', 'The model that it serves.', { form: '<model>' }),
});
