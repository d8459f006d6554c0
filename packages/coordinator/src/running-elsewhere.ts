import type { ProcessId } from '@nereid/protocol';
import type { Entry, RequestEntries } from './request-entries.ts';

/**
 * Requests that workers run in batches of an earlier owner (docs/protocol.md R26), by id: known from
 * what each worker says that it runs, and forgotten when it no longer lists them or is gone. Else
 * every takeover would run long requests twice, or hold one for running for ever.
 */
export interface RunningElsewhere {
  /** The worker that runs it. */
  worker(id: string): ProcessId | undefined;
  /** What the worker runs now; `isOurs` tells the requests that this owner has sent out itself. Returns ids that are new, and those that are over. */
  replace(
    worker: ProcessId,
    running: ReadonlySet<string>,
    isOurs: (id: string) => boolean,
  ): { readonly found: readonly string[]; readonly over: readonly string[] };
  add(id: string, worker: ProcessId): void;
  delete(id: string): void;
}

export function createRunningElsewhere(): RunningElsewhere {
  const workers = new Map<string, ProcessId>();
  return {
    worker: (id) => workers.get(id),
    replace(worker, running, isOurs) {
      const over = [...workers].flatMap(([id, at]) => (at === worker && !running.has(id) ? [id] : []));
      for (const id of over) workers.delete(id);
      const found = [...running].filter((id) => !workers.has(id) && !isOurs(id));
      for (const id of found) workers.set(id, worker);
      return { found, over };
    },
    add: (id, worker) => void workers.set(id, worker),
    delete: (id) => void workers.delete(id),
  };
}

interface TakeOverParts {
  readonly elsewhere: RunningElsewhere;
  readonly entries: RequestEntries;
  /** Takes one that waits out of the scheduler; undefined where it stays there. */
  readonly leaves: ((id: string) => void) | undefined;
}

/** Notes what the worker runs, of which nothing is run a second time; those that it runs no longer. */
export function takeOverRunning(
  { elsewhere, entries, leaves }: TakeOverParts,
  worker: ProcessId,
  running: ReadonlySet<string>,
): readonly Entry[] {
  const { found, over } = elsewhere.replace(worker, running, (id) => entries.get(id)?.batch !== undefined);
  for (const id of found) {
    const entry = entries.get(id);
    if (entry === undefined || entry.running || leaves === undefined) continue;
    entries.runElsewhere(entry, worker);
    leaves(id);
  }
  return over.flatMap((id) => {
    const entry = entries.get(id);
    return entry?.elsewhere === worker ? [entry] : [];
  });
}
