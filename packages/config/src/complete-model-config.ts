import { clone, create } from '@bufbuild/protobuf';
import { completeBackend, type VersionFile } from './complete-backend.ts';
import {
  ModelInstanceGroup_Kind as Kind,
  type ModelConfig,
  ModelConfigSchema,
  type ModelInstanceGroup,
  ModelInstanceGroupSchema,
  ModelOptimizationPolicySchema,
  ModelVersionPolicySchema,
  ModelOptimizationPolicy_PinnedMemoryBufferSchema as PinnedMemorySchema,
} from './gen/model_config_pb.ts';

const SEQUENCE_IDLE_DEFAULT_MICROSECONDS = 1_000_000n;
/** Backends whose CPU groups have two instances unless the config says how many. */
const TWO_CPU_INSTANCES: ReadonlySet<string> = new Set(['onnxruntime', 'tensorflow']);

export interface CompleteOptions {
  /** The model's directory name, which is the name where the config gives none. */
  readonly name: string;
  /** What the first version directory holds; undefined where there is no version. */
  readonly files: readonly VersionFile[] | undefined;
  /** GPUs that can be used, numbered from 0; undefined where each worker resolves its instances by its own. */
  readonly gpus: number | undefined;
}

/**
 * A copy of a config with everything filled in that its files and the machine tell: name, backend,
 * platform, file name, and then `normaliseModelConfig`.
 * Throws INVALID_ARG where no backend can be found.
 */
export function completeModelConfig(config: ModelConfig, options: CompleteOptions): ModelConfig {
  const named = clone(ModelConfigSchema, config);
  named.name ||= options.name;
  return normaliseModelConfig(completeBackend(named, options.files), options.gpus);
}

/**
 * A copy with the defaults that a reader of GET …/config sees (core/src/model_config_utils.cc,
 * NormalizeModelConfig and NormalizeInstanceGroup). Normalising twice changes nothing. Without `gpus`
 * what depends on them is left open: KIND_AUTO, its count, and the GPUs of a KIND_GPU that lists none.
 */
export function normaliseModelConfig(config: ModelConfig, gpus: number | undefined): ModelConfig {
  const normal = clone(ModelConfigSchema, config);
  normal.versionPolicy ??= create(ModelVersionPolicySchema, {
    policyChoice: { case: 'latest', value: { numVersions: 1 } },
  });
  normaliseScheduling(normal);
  if (isEnsemble(normal)) return normal;
  normal.optimization ??= create(ModelOptimizationPolicySchema);
  normal.optimization.inputPinnedMemory ??= create(PinnedMemorySchema, { enable: true });
  normal.optimization.outputPinnedMemory ??= create(PinnedMemorySchema, { enable: true });
  if (normal.instanceGroup.length === 0) {
    normal.instanceGroup.push(create(ModelInstanceGroupSchema, { name: normal.name }));
  }
  for (const [index, group] of normal.instanceGroup.entries()) normaliseGroup(normal, group, index, gpus);
  return normal;
}

/** A copy of a normalised config with what was left open for want of `gpus` decided: what a worker of so many makes of it. */
export function resolveInstances(config: ModelConfig, gpus: number): ModelConfig {
  const resolved = clone(ModelConfigSchema, config);
  for (const [index, group] of resolved.instanceGroup.entries()) normaliseGroup(resolved, group, index, gpus);
  return resolved;
}

/** Ensembles have neither instances nor optimization of their own. */
export function isEnsemble(config: ModelConfig): boolean {
  return config.platform === 'ensemble' || config.schedulingChoice.case === 'ensembleScheduling';
}

function normaliseScheduling(config: ModelConfig): void {
  const { schedulingChoice: scheduling, maxBatchSize } = config;
  if (scheduling.case === 'dynamicBatching') {
    const sizes = scheduling.value.preferredBatchSize;
    if (sizes.length === 0 && maxBatchSize > 0) sizes.push(maxBatchSize);
  }
  if (scheduling.case === 'sequenceBatching') {
    scheduling.value.maxSequenceIdleMicroseconds ||= SEQUENCE_IDLE_DEFAULT_MICROSECONDS;
    const strategy = scheduling.value.strategyChoice;
    if (strategy.case === 'oldest') {
      const sizes = strategy.value.preferredBatchSize;
      if (sizes.length === 0 && maxBatchSize > 0) sizes.push(maxBatchSize);
    }
  }
}

function normaliseGroup(config: ModelConfig, group: ModelInstanceGroup, index: number, gpus?: number): void {
  group.name ||= `${config.name}_${index}`;
  if (group.kind === Kind.AUTO && gpus === undefined) return;
  if (group.kind === Kind.AUTO && gpus !== undefined) {
    const present = gpus > 0 && group.gpus.every((id) => id >= 0 && id < gpus);
    group.kind = present ? Kind.GPU : Kind.CPU;
  }
  if (group.count < 1) {
    group.count = group.kind === Kind.CPU && TWO_CPU_INSTANCES.has(config.backend) ? 2 : 1;
  }
  if (group.kind === Kind.GPU && group.gpus.length === 0 && gpus !== undefined) {
    for (let id = 0; id < gpus; id++) group.gpus.push(id);
  }
}
