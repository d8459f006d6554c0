import type { ModelRecord } from '@nereid/config';
import type { ProcessId } from '@nereid/protocol';
import type { Directory, Role, Transport } from '@nereid/transport';

const ROLES: readonly Role[] = ['gateway', 'coordinator', 'worker'];

/** A record seen without an owner so often in a row is nobody's: a takeover takes less than two rounds. */
const OWNERLESS_ROUNDS = 4;

export interface ReaperParts {
  readonly id: ProcessId;
  readonly directory: Directory<ModelRecord>;
  readonly transport: Pick<Transport, 'reap'>;
}

/** Takes away what the dead left; a duty of one coordinator, the one with the lowest id. */
export interface Reaper {
  /**
   * One round, called every few seconds: mailboxes of dead processes, where the transport leaves any
   * (docs/protocol.md R36), and records of models that no coordinator takes any more.
   */
  reap(): Promise<void>;
}

export function createReaper({ id, directory, transport }: ReaperParts): Reaper {
  /** Rounds in which a model's record had no owner. */
  let ownerless = new Map<string, number>();

  const reapRecords = async () => {
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
  };

  return {
    async reap() {
      if (directory.processes('coordinator').some((other) => other.id < id)) {
        ownerless.clear();
        return;
      }
      // Itself too, whatever the directory believes.
      const alive = new Set([id, ...ROLES.flatMap((role) => directory.processes(role)).map((process) => process.id)]);
      await transport.reap?.(alive);
      await reapRecords();
    },
  };
}
