import type { ProcessId } from '@nereid/protocol';
import { type Directory, firstRanked } from '@nereid/transport';

export interface LeaseSight {
  /** This coordinator. */
  readonly id: ProcessId;
  /** Who owns the model, as the directory believes. */
  readonly owner: ProcessId | undefined;
  readonly isFirst: boolean;
  /** Since when the lease was seen free, microseconds; undefined for just now. */
  readonly freeSinceUs: number | undefined;
  readonly nowUs: number;
  readonly look_ms: number;
}

/**
 * What a coordinator that does not own the model does at a look. The first-ranked one takes a free
 * lease at once, the others only after a further look, should the first be unable to. A lease in this
 * coordinator's own name that it knows nothing of is its own of which the answer was lost, or which it
 * gave up: it takes it anew, under a new epoch (docs/protocol.md R2).
 */
export function leaseStep(sight: LeaseSight): 'leave' | 'take' | 'wait' {
  const { id, owner, isFirst, freeSinceUs, nowUs, look_ms } = sight;
  if (owner === id) return 'take';
  if (owner !== undefined) return 'leave';
  if (isFirst) return 'take';
  return freeSinceUs !== undefined && nowUs - freeSinceUs >= look_ms * 1000 ? 'take' : 'wait';
}

export interface LeaseLookParts {
  readonly id: ProcessId;
  readonly directory: Directory<unknown>;
  readonly look_ms: number;
}

export interface LeaseLook {
  /** Those of the models that this coordinator is to take now; it owns none of them. */
  toTake(models: Iterable<string>, nowUs: number): readonly string[];
  /** Whether a model that nobody owns falls to this coordinator. */
  isFirst(model: string): boolean;
}

export function createLeaseLook({ id, directory, look_ms }: LeaseLookParts): LeaseLook {
  let freeSinceUs = new Map<string, number>();

  /** Also itself where the directory does not list it yet. */
  const candidates = () => {
    const live = directory.processes('coordinator').filter(({ draining }) => !draining);
    return new Set([id, ...live.map((process) => process.id)]);
  };

  return {
    isFirst: (model) => firstRanked(model, candidates()) === id,
    toTake(models, nowUs) {
      const coordinators = candidates();
      const stillFree = new Map<string, number>();
      const found: string[] = [];
      for (const model of models) {
        const owner = directory.owner(model)?.owner;
        const isFirst = owner === undefined && firstRanked(model, coordinators) === id;
        const step = leaseStep({ id, owner, isFirst, freeSinceUs: freeSinceUs.get(model), nowUs, look_ms });
        if (step === 'take') found.push(model);
        if (owner === undefined) stillFree.set(model, freeSinceUs.get(model) ?? nowUs);
      }
      freeSinceUs = stillFree;
      return found;
    },
  };
}
