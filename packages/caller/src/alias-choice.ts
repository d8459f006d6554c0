import type { AliasVersion } from '@nereid/config';

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
const HASHES = 2 ** 32;

/** A number from 0 up to 1 that is the same for a text everywhere, and spread evenly over texts. */
export function pointOf(text: string): number {
  let hash = FNV_OFFSET;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME);
  }
  // Texts that differ at their end alone, as ids that count up do, are near each other so far.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / HASHES;
}

/**
 * The version at that point, from 0 up to 1, of the line on which each version has its weight's part, in their order:
 * changing a weight moves no more requests than it has to. One version at least has a weight.
 */
export function versionAt(versions: readonly AliasVersion[], point: number): string {
  const total = versions.reduce((sum, { weight }) => sum + weight, 0);
  let left = point * total;
  let chosen = '';
  for (const { version, weight } of versions) {
    if (weight === 0) continue;
    chosen = version;
    if (left < weight) break;
    left -= weight;
  }
  return chosen;
}
