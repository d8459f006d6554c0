import {
  ModelInstanceGroup_Kind as Kind,
  type ModelConfig,
  type ModelInstanceGroup,
  type ModelRateLimiter,
} from './gen/model_config_pb.ts';

export interface ExpandedInstance {
  /** Position among one worker's instances of a version. */
  readonly index: number;
  /** `<group>_<k>`, on a GPU `<group>_<k>_gpu<id>`. */
  readonly name: string;
  readonly group: string;
  /** `id` is the GPU's index, else 0. */
  readonly device: { readonly kind: 'cpu' | 'gpu' | 'model'; readonly id: number };
  /** Loaded, but never scheduled. */
  readonly passive: boolean;
  readonly rateLimiter?: ModelRateLimiter | undefined;
  /** The host policy that it is under, if there is one of that name. */
  readonly hostPolicy: string;
}

/**
 * The instances that one worker starts for a version of a completed config, in Triton's order:
 * by group, then count, then GPU (core/src/backend_model.cc, PrepareInstances).
 */
export function expandInstances(config: ModelConfig): readonly ExpandedInstance[] {
  const instances: ExpandedInstance[] = [];
  for (const group of config.instanceGroup) {
    for (let k = 0; k < group.count; k++) {
      for (const device of devices(group)) {
        const suffix = device.kind === 'gpu' ? `_gpu${device.id}` : '';
        instances.push({
          index: instances.length,
          name: `${group.name}_${k}${suffix}`,
          group: group.name,
          device,
          passive: group.passive,
          rateLimiter: group.rateLimiter,
          hostPolicy: group.hostPolicy || defaultPolicy(device),
        });
      }
    }
  }
  return instances;
}

/** Whether it needs resources of the rate limiter, where that is on. */
export function isRateLimited({ passive, rateLimiter }: Pick<ModelInstanceGroup, 'passive' | 'rateLimiter'>): boolean {
  return !passive && rateLimiter !== undefined && rateLimiter.resources.length > 0;
}

/** The GPU that an instance is on, by its name; undefined for none. */
export function instanceGpu(name: string): number | undefined {
  const id = /_gpu(\d+)$/.exec(name)?.[1];
  return id === undefined ? undefined : Number(id);
}

function defaultPolicy({ kind, id }: ExpandedInstance['device']): string {
  return kind === 'gpu' ? `gpu_${id}` : kind;
}

function devices(group: ModelInstanceGroup): readonly ExpandedInstance['device'][] {
  if (group.kind === Kind.GPU) return group.gpus.map((id) => ({ kind: 'gpu', id }));
  return [{ kind: group.kind === Kind.MODEL ? 'model' : 'cpu', id: 0 }];
}
