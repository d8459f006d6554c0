import { DEFAULTS } from '@nereid/config';
import { NereidError, type ProcessId } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import { createAtMost, type Log } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { LeaseLook } from './lease-look.ts';
import type { OwnedModel } from './owned-model.ts';
import type { Owner } from './owner.ts';
import { createRepositoryPoll, type RepositoryPoll } from './repository-poll.ts';
import type { Ticks } from './ticks.ts';

export interface CoordinatorPollParts {
  readonly id: ProcessId;
  readonly log: Log;
  readonly reader: Pick<ModelReader, 'list'>;
  readonly directory: Pick<Directory<unknown>, 'owner'>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly look: Pick<LeaseLook, 'isFirst'>;
  /** Undefined before its start and after its stop. */
  readonly owner: () => Owner | undefined;
  readonly looked: () => void;
  readonly stopping: () => boolean;
  readonly options: { readonly repositoryPollSecs?: number; readonly modelLoadThreads?: number };
}

export interface CoordinatorPoll extends RepositoryPoll {
  /** Looks every `repositoryPollSecs`. */
  start(ticks: Ticks): void;
}

/** A coordinator's models as the poll of its repositories sees them. */
export function createCoordinatorPoll(parts: CoordinatorPollParts): CoordinatorPoll {
  const { reader, directory, models, look, options } = parts;

  const ownerNow = (): Owner => {
    const owner = parts.owner();
    if (owner === undefined) throw new NereidError('UNAVAILABLE', 'the coordinator is not running');
    return owner;
  };

  const poll = createRepositoryPoll({
    log: parts.log,
    list: reader.list,
    ours() {
      const owner = parts.owner();
      if (owner === undefined) return [];
      const fallen = owner.unread().filter((name) => directory.owner(name) === undefined && look.isFirst(name));
      return [...new Set([...owner.owned(), ...fallen])];
    },
    isLoaded(name) {
      const model = models.get(name);
      return model !== undefined && isLoaded(model);
    },
    isBusy: (name) => parts.owner()?.busy(name) === true,
    load: async (name) => ownerNow().load(name),
    unload: async (name) => ownerNow().unload(name),
    limitLoads: createAtMost(options.modelLoadThreads ?? DEFAULTS.model_load_threads),
    looked: parts.looked,
    stopping: parts.stopping,
  });

  return {
    ...poll,
    start(ticks) {
      const seconds = options.repositoryPollSecs ?? 0;
      if (seconds > 0) ticks.every(seconds * 1000, () => void poll.look());
    },
  };
}

/** What waits for a worker, or for the models of an ensemble, is loaded without another look. */
function isLoaded({ phase, unheld, awaitsModels }: OwnedModel): boolean {
  return phase === 'failed' ? unheld || awaitsModels : phase !== 'unloaded';
}
