import { type ConfigCheck, refuseField } from './config-fault.ts';
import { ModelInstanceGroup_Kind as Kind, type ModelConfig, type ModelInstanceGroup } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';

/**
 * The rules of instance groups (core/src/model_config_utils.cc, ValidateInstanceGroup). `gpus` that can be
 * used, numbered from 0; undefined where each worker goes by its own.
 */
export function instanceGroupChecks(config: ModelConfig, gpus: number | undefined): ConfigCheck[] {
  return [
    () => {
      if (config.instanceGroup.length > 0) return;
      refuseField('instance_group', `must specify one or more 'instance group's for ${config.name}`);
    },
    ...config.instanceGroup.map((group, index) => () => checkGroup(config, group, index, gpus)),
    () => checkCount(config),
  ];
}

/** Why a machine of so many GPUs cannot hold the instances of a normalised config; undefined where it can. */
export function missingGpus(config: ModelConfig, gpus: number): string | undefined {
  for (const group of config.instanceGroup) {
    const missing = missingGpu(config, group, gpus);
    if (missing !== undefined) return missing.text;
  }
  return undefined;
}

function missingGpu(config: ModelConfig, group: ModelInstanceGroup, gpus: number) {
  const what = `instance group ${group.name} of model ${config.name}`;
  if (group.kind === Kind.GPU && gpus === 0 && group.gpus.length === 0) {
    const text = `${what} has kind KIND_GPU but no GPUs are available; use KIND_CPU, or KIND_AUTO for either`;
    return { field: 'kind', text };
  }
  const wrong = group.gpus.find((id) => id < 0 || id >= gpus);
  if (wrong === undefined) return undefined;
  const ids = Array.from({ length: gpus }, (_, id) => id).join(', ') || 'none';
  const text = `${what} specifies invalid or unsupported gpu id ${wrong}. The GPUs of this machine are: ${ids}`;
  return { field: 'gpus', text };
}

function checkGroup(config: ModelConfig, group: ModelInstanceGroup, index: number, gpus: number | undefined): void {
  const path = `instance_group[${index}]`;
  const what = `instance group ${group.name} of model ${config.name}`;
  const mayHaveGpus = group.kind === Kind.GPU || (group.kind === Kind.AUTO && gpus === undefined);
  if (!mayHaveGpus && group.gpus.length > 0) {
    refuseField(`${path}.gpus`, `${what} has kind KIND_${Kind[group.kind]} but specifies one or more GPUs`);
  }
  const missing = gpus === undefined ? undefined : missingGpu(config, group, gpus);
  if (missing !== undefined) refuseField(`${path}.${missing.field}`, missing.text);
  const negative = group.gpus.find((id) => id < 0);
  if (negative !== undefined) {
    refuseField(`${path}.gpus`, `${what} specifies invalid or unsupported gpu id ${negative}`);
  }
  if (group.profile.length > 0 && config.platform !== 'tensorrt_plan') {
    const text = `and platform ${config.platform} specifies profile field which is only supported for TensorRT models`;
    refuseField(`${path}.profile`, `${what} ${text}`);
  }
  for (const profile of group.profile) {
    if (/^[0-9]+$/.test(profile)) continue;
    const text = `specifies invalid profile ${profile}. The field should contain the string representation of an integer`;
    refuseField(`${path}.profile`, `${what} ${text} from 0`);
  }
}

function checkCount({ name, instanceGroup }: ModelConfig): void {
  const instances = instanceGroup
    .map(({ count, gpus }) => Math.max(1, count) * Math.max(1, gpus.length))
    .reduce((sum, each) => sum + each, 0);
  if (instances <= LIMITS.instances_per_model_max) return;
  const text = `the instance groups of model ${name} ask for ${instances} instances, more than`;
  refuseField('instance_group', `${text} ${LIMITS.instances_per_model_max}`);
}
