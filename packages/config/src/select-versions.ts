import { INT64_MAX } from '@nereid/protocol';
import type { ModelConfig } from './gen/model_config_pb.ts';

/**
 * Whether a folder's name is a version: decimal digits that do not start with zero
 * (docs/user_guide/model_repository.md) and fit a signed 64-bit number; other folders are ignored.
 */
export function isVersionName(name: string): boolean {
  return /^[1-9][0-9]{0,18}$/.test(name) && BigInt(name) <= INT64_MAX;
}

/** Negative, zero or positive as version `a` is lower, equal or higher than `b`, by number. */
export function compareVersions(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

/**
 * The versions that the config's policy picks of those present, ascending by number. `specific`
 * versions that are absent are left out; `latest {}` without a number picks none.
 */
export function selectVersions(config: ModelConfig, present: readonly string[]): string[] {
  const sorted = [...present].sort(compareVersions);
  const policy = config.versionPolicy?.policyChoice;
  if (policy?.case === 'specific') {
    const wanted = new Set(policy.value.versions.map(String));
    return sorted.filter((version) => wanted.has(version));
  }
  if (policy?.case === 'latest') {
    const { numVersions } = policy.value;
    return numVersions === 0 ? [] : sorted.slice(-numVersions);
  }
  return sorted;
}
