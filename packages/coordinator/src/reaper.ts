import type { ModelRecord } from '@nereid/config';
import type { ProcessId } from '@nereid/protocol';
import type { Directory, KeptTotals } from '@nereid/transport';

/** A record seen without an owner so often in a row is nobody's: a takeover takes less than two rounds. */
const OWNERLESS_ROUNDS = 4;
/** Whoever counted it last. */
const ANY_EPOCH = Number.MAX_SAFE_INTEGER;

export interface ReaperParts {
  readonly id: ProcessId;
  readonly directory: Directory<ModelRecord>;
  readonly totals?: KeptTotals | undefined;
}

/**
 * Takes away records of models that no coordinator takes any more, and what was counted of them; a
 * duty of one coordinator, the one with the lowest id. What else the dead leave runs out by itself.
 */
export interface Reaper {
  /** One round, called every few seconds. */
  reap(): Promise<void>;
}

export function createReaper({ id, directory, totals }: ReaperParts): Reaper {
  /** Rounds in which a model's record had no owner. */
  let ownerless = new Map<string, number>();

  return {
    async reap() {
      if (directory.processes('coordinator').some((other) => other.id < id)) {
        ownerless.clear();
        return;
      }
      const seen = new Map<string, number>();
      const dead: string[] = [];
      for (const { name } of directory.records()) {
        if (directory.owner(name) !== undefined) continue;
        const rounds = (ownerless.get(name) ?? 0) + 1;
        if (rounds >= OWNERLESS_ROUNDS) dead.push(name);
        else seen.set(name, rounds);
      }
      ownerless = seen;
      for (const name of dead) await directory.withdraw(name);
      if (dead.length > 0) await totals?.write(dead.map((model) => ({ model, epoch: ANY_EPOCH, text: '' })));
    },
  };
}
