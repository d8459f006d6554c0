import type { ModelRecord } from '@nereid/config';
import type { ModelReader } from '@nereid/repository';
import type { AtMost, Clock, Log, Timer } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { EnsembleStates } from './ensemble-states.ts';
import type { Leases } from './leases.ts';
import type { BegunLoad } from './model-loads.ts';
import { type ModelQueuesParts, openQueues, openRetiringQueues } from './model-queues.ts';
import { closeStrategies, openStrategies } from './model-strategies.ts';
import type { ModelWorkers } from './model-workers.ts';
import { recordedModel } from './new-model.ts';
import { isEnsemble, type OwnedModel } from './owned-model.ts';
import type { RetiringLoads } from './retiring-loads.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';

export interface TakeoverParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: Directory<ModelRecord>;
  readonly reader: ModelReader;
  readonly leases: Leases;
  readonly models: Map<string, OwnedModel>;
  readonly workers: ModelWorkers;
  readonly keeper: StatisticsKeeper;
  readonly queues: ModelQueuesParts;
  /** How long workers have to say what they hold before the model is what they said by then. */
  readonly answer_wait_ms: number;
  readonly publish: (model: OwnedModel) => void;
  readonly ensembles: Pick<EnsembleStates, 'look'>;
  readonly retiring: RetiringLoads;
  readonly beginLoad: (name: string, anew: boolean) => Promise<BegunLoad>;
  /** See Owner. */
  readonly taken: (name: string) => void;
  readonly limitLoads: AtMost;
}

/** Takes free leases, and goes on with the models that earlier owners served (docs/protocol.md R9). */
export interface Takeover {
  take(name: string, anew: boolean): Promise<void>;
  taking(name: string): boolean;
  close(): void;
}

export function createTakeover(parts: TakeoverParts): Takeover {
  const { clock, log, directory, leases, models, workers } = parts;
  const taking = new Set<string>();
  const waits = new Set<Timer>();

  const isOwned = (model: OwnedModel) => models.get(model.name) === model;

  /** Intake is open at once and the record stays as it is. A worker is used once it has said what it holds. */
  const goOn = (model: OwnedModel) => {
    models.set(model.name, model);
    // Unchanged, but a Redis that began anew may have forgotten what others still remember.
    parts.publish(model);
    if (model.phase !== 'serving') return;
    openQueues(model, parts.queues);
    openRetiringQueues(model, parts.queues);
    parts.keeper.takenOver(model);
    log.info({ model: model.name, versions: model.source.versions }, 'model taken over');
    if (isEnsemble(model)) {
      parts.ensembles.look(model);
      return;
    }
    workers.tellAll(model, 'load');
    parts.retiring.end(model);
    const timer = clock.at(clock.nowUs() + parts.answer_wait_ms * 1000, () => {
      waits.delete(timer);
      if (isOwned(model)) workers.settle(model);
    });
    waits.add(timer);
  };

  /** Loads a model anew where this coordinator's files are others than those it is served from. */
  const compareFiles = async (model: OwnedModel): Promise<BegunLoad | undefined> => {
    let contentHash: string;
    try {
      ({ contentHash } = await parts.reader.read(model.name));
    } catch (error) {
      // As for any model that runs, a wrong file does not touch it.
      log.warn({ err: error, model: model.name }, 'cannot read the files of a model taken over');
      return undefined;
    }
    const isOther = isOwned(model) && contentHash !== model.source.contentHash;
    return isOther ? parts.beginLoad(model.name, false) : undefined;
  };

  /** Opens its strategies, if it has any. Where that fails it is to be loaded, which then fails with the reason. */
  const canGoOn = async (model: OwnedModel): Promise<boolean> => {
    if (model.phase !== 'serving' || model.source.strategies === undefined) return true;
    const directory = await parts.reader.directory(model.name).catch(() => undefined);
    const opened = directory !== undefined && (await openStrategies(model, directory, parts)) === undefined;
    const epoch = leases.epoch(model.name);
    if (opened && epoch !== undefined) {
      // It may have been renewed meanwhile.
      model.epoch = epoch;
      return true;
    }
    closeStrategies(model.versions);
    return false;
  };

  /** The model as its record says, now served here; undefined for one that is to be loaded. */
  const acquire = async (name: string, anew: boolean): Promise<OwnedModel | undefined> => {
    taking.add(name);
    try {
      await leases.acquire(name);
      const epoch = leases.epoch(name);
      const record = directory.record(name);
      const model = record === undefined || epoch === undefined ? undefined : recordedModel(record, epoch, anew);
      if (model === undefined || !(await canGoOn(model))) return undefined;
      // The lease may have been lost meanwhile.
      if (leases.epoch(name) === undefined) return undefined;
      goOn(model);
      return model;
    } finally {
      taking.delete(name);
      parts.taken(name);
    }
  };

  return {
    async take(name, anew) {
      if (leases.has(name)) return;
      const model = await acquire(name, anew);
      if (model?.phase === 'unloaded') return;
      // An ensemble waits for models whose loads may need its place.
      const begun = await parts.limitLoads(() =>
        model === undefined ? parts.beginLoad(name, anew) : compareFiles(model),
      );
      await begun?.ended;
    },
    taking: (name) => taking.has(name),
    close() {
      for (const timer of waits) timer.cancel();
      waits.clear();
    },
  };
}
