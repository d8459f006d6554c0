/** What becomes of an alias by each change of it. */
import { NereidError } from '@nereid/protocol';
import type { Alias, AliasVersion } from './aliases.ts';

/**
 * The alias as `given`, in place of what was there: the versions of that are what a roll back returns to, unless they are
 * the same, or of another model.
 */
export function replacedAlias(known: Alias | undefined, given: Alias): Alias {
  if (known === undefined || known.model !== given.model) return given;
  if (!isSame(known.versions, given.versions)) return { ...given, before: known.versions };
  return known.before === undefined ? given : { ...given, before: known.before };
}

/** All weight to that version, which it may not have had yet; as it is where that has all. */
export function promotedAlias(known: Alias, version: string): Alias {
  const others = known.versions.map((each) => ({ version: each.version, weight: each.version === version ? 1 : 0 }));
  const has = others.some(({ weight }) => weight > 0);
  const isDone = has && known.versions.every((each) => each.version === version || each.weight === 0);
  if (isDone) return known;
  return { ...known, versions: has ? others : [...others, { version, weight: 1 }], before: known.versions };
}

/** As before the last change of its versions. A second roll back is refused, so that one that is sent twice undoes nothing. */
export function rolledBackAlias(known: Alias): Alias {
  const { before, ...rest } = known;
  if (before !== undefined) return { ...rest, versions: before };
  const message = `alias '${known.name}' has nothing to roll back to: its versions have not changed since it was made, or since the last roll back`;
  throw new NereidError('ALREADY_EXISTS', message);
}

function isSame(one: readonly AliasVersion[], other: readonly AliasVersion[]): boolean {
  const weights = new Map(one.map(({ version, weight }) => [version, weight]));
  return one.length === other.length && other.every(({ version, weight }) => weights.get(version) === weight);
}
