import type { AliasRoute } from './alias-route.ts';

/** One more drops the one that was asked for longest ago: its next step is found by its id alone. */
const SEQUENCES_MAX = 4_096;

/**
 * To which versions this caller's sequences of aliases went, so that one stays with its version while weights change, also
 * where nobody can tell at the moment where it lives. Who does not know it finds it by its correlation id.
 */
export interface AliasedSequences {
  /** The route with the version where its sequence went, if it is a later step of one that is known. */
  follow(route: AliasRoute, step: SequenceMarks): AliasRoute;
  readonly size: number;
}

interface SequenceMarks {
  readonly modelVersion: string;
  readonly sequenceStart: boolean;
  readonly sequenceEnd: boolean;
}

export function createAliasedSequences(sequences_max = SEQUENCES_MAX): AliasedSequences {
  const versions = new Map<string, string>();
  return {
    follow(route, { modelVersion, sequenceStart: start, sequenceEnd: end }) {
      if (!route.isStep || modelVersion !== '') return route;
      const key = `${route.alias.model}\n${route.key}`;
      const version = start ? route.version : (versions.get(key) ?? route.version);
      versions.delete(key);
      if (!end) versions.set(key, version);
      for (const oldest of versions.keys()) {
        if (versions.size <= sequences_max) break;
        versions.delete(oldest);
      }
      return version === route.version ? route : { ...route, version };
    },
    get size() {
      return versions.size;
    },
  };
}
