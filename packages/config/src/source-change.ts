/** What a change of a model's files asks of who serves it. */
import { clone, equals } from '@bufbuild/protobuf';
import { isEnsemble } from './complete-model-config.ts';
import type { ExpandedInstance } from './expand-instances.ts';
import { type ModelConfig, ModelConfigSchema, ModelRateLimiterSchema } from './gen/model_config_pb.ts';
import type { ModelSource } from './read-model.ts';

/**
 * - `same`: nothing that is served has changed;
 * - `instances`: other instances of the same versions, which can be started and stopped in place;
 * - `other`: the model is to be loaded anew.
 */
export type SourceChange = 'same' | 'instances' | 'other';

/**
 * By Triton's rule (model_lifecycle.cc, AsyncLoad): only instances change where the files beside the config are as they
 * were, and the config but for `instance_group` and `version_policy`. A config of another text that means the same is
 * such a change too, of no instance.
 */
export function sourceChange(old: ModelSource, found: ModelSource): SourceChange {
  if (old.contentHash === found.contentHash) return 'same';
  const sameFiles = old.filesHash !== undefined && old.filesHash === found.filesHash;
  // An ensemble has none.
  if (!sameFiles || isEnsemble(found.config)) return 'other';
  const sameVersions = old.versions.join() === found.versions.join();
  return sameVersions && differsInInstances(old.config, found.config) ? 'instances' : 'other';
}

/** True of configs that are equal but for `instance_group` and `version_policy`. */
export function differsInInstances(old: ModelConfig, found: ModelConfig): boolean {
  return equals(ModelConfigSchema, withoutInstances(old), withoutInstances(found));
}

function withoutInstances(config: ModelConfig): ModelConfig {
  const rest = clone(ModelConfigSchema, config);
  rest.instanceGroup = [];
  delete rest.versionPolicy;
  return rest;
}

export interface InstanceChanges {
  /** Those that go on as they are, with the name and index that they have. */
  readonly kept: readonly ExpandedInstance[];
  /** Of names and indexes that no held one has. */
  readonly added: readonly ExpandedInstance[];
  readonly removed: readonly ExpandedInstance[];
}

/**
 * How the instances that are held become those that are wanted. One is kept for any wanted one that is alike but for name
 * and place in its group (Triton's TritonModelInstance::Signature), the one of the same name before others.
 * `nextIndex` is above every index that an instance of the version has had.
 */
export function instanceChanges(
  held: readonly ExpandedInstance[],
  wanted: readonly ExpandedInstance[],
  nextIndex: number,
): InstanceChanges {
  const left = new Set(held);
  const kept: ExpandedInstance[] = [];
  const keep = (fits: (instance: ExpandedInstance) => boolean): boolean => {
    const found = [...left].find(fits);
    if (found === undefined) return false;
    left.delete(found);
    kept.push(found);
    return true;
  };
  const others = wanted.filter((each) => !keep((one) => one.name === each.name && isAlike(one, each)));
  const lacking = others.filter((each) => !keep((one) => isAlike(one, each)));
  const names = new Set(held.map(({ name }) => name));
  const added = lacking.map((instance, place): ExpandedInstance => {
    const name = freeName(instance, names);
    names.add(name);
    return { ...instance, index: nextIndex + place, name };
  });
  return { kept, added, removed: [...left] };
}

function isAlike(a: ExpandedInstance, b: ExpandedInstance): boolean {
  return (
    a.device.kind === b.device.kind &&
    a.device.id === b.device.id &&
    a.passive === b.passive &&
    a.hostPolicy === b.hostPolicy &&
    sameLimiter(a.rateLimiter, b.rateLimiter)
  );
}

function sameLimiter(a: ExpandedInstance['rateLimiter'], b: ExpandedInstance['rateLimiter']): boolean {
  if (a === undefined || b === undefined) return a === b;
  return equals(ModelRateLimiterSchema, a, b);
}

/** Its own, or where a held instance has that the first of its group that is free. */
function freeName({ name, group, device }: ExpandedInstance, taken: ReadonlySet<string>): string {
  const suffix = device.kind === 'gpu' ? `_gpu${device.id}` : '';
  let free = name;
  for (let k = 0; taken.has(free); k++) free = `${group}_${k}${suffix}`;
  return free;
}
