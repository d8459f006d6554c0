import { type ControlMode, encodeRepositoryList, REPOSITORY_VALUE } from '@nereid/config';
import type { ProcessId } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { Log } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';

export interface RepositoryTellParts {
  readonly id: ProcessId;
  readonly directory: Directory<unknown>;
  readonly reader: Pick<ModelReader, 'folders'>;
  readonly log: Log;
  readonly controlMode: ControlMode;
}

/**
 * Tells the cluster what the repositories hold, models that were never loaded among it, for gateways
 * read none. All coordinators see the same repositories: the one with the lowest id tells, the others
 * only where nothing is told yet. Called at the start and every few seconds. Never rejects: what could
 * not be read or told this time is the next time.
 */
export function createRepositoryTell(parts: RepositoryTellParts): () => Promise<void> {
  const { id, directory, reader, log, controlMode } = parts;
  /** Said once, not at each look. */
  let failing = false;

  const falls = () => {
    const others = directory.processes('coordinator').filter((process) => process.id !== id && !process.draining);
    return directory.value(REPOSITORY_VALUE) === undefined || others.every((other) => id < other.id);
  };

  return async () => {
    if (!falls()) return;
    try {
      const text = encodeRepositoryList({ controlMode, folders: await reader.folders() });
      if (directory.value(REPOSITORY_VALUE)?.text !== text) await directory.setValue(REPOSITORY_VALUE, text);
      failing = false;
    } catch (error) {
      if (!failing) log.warn({ err: error }, 'the repository index is out of date: it was not read, or not told');
      failing = true;
    }
  };
}
