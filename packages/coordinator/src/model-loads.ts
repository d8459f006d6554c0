import { LOAD_FAILED, type ModelRecord, type ModelSource } from '@nereid/config';
import { errorInfo, NereidError, UNLOADED } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { Clock, Log } from '@nereid/runtime';
import type { Conditions } from './conditions.ts';
import type { EnsembleStates } from './ensemble-states.ts';
import type { Leases } from './leases.ts';
import { closeQueues, drainQueues, type ModelQueuesParts, openQueues } from './model-queues.ts';
import { closeStrategies, openStrategies } from './model-strategies.ts';
import type { ModelWorkers } from './model-workers.ts';
import { loadedModel, unsupportedText } from './new-model.ts';
import {
  hasQueues,
  isEnsemble,
  isIdle,
  isUnheld,
  loadedSomewhere,
  loadFailure,
  loadSettled,
  modelRecord,
  type OwnedModel,
  setStates,
  stateAtWorkers,
  unloadSettled,
} from './owned-model.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';
import { unreadFailure, unreadRecord } from './unread-model.ts';

export interface ModelLoadsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly reader: ModelReader;
  readonly models: Map<string, OwnedModel>;
  readonly conditions: Conditions;
  readonly keeper: StatisticsKeeper;
  readonly leases: Leases;
  readonly workers: ModelWorkers;
  readonly ensembles: Pick<EnsembleStates, 'missing' | 'wait'>;
  readonly queues: ModelQueuesParts;
  /** Models that cannot be read. */
  readonly unreadable: Set<string>;
  readonly isOwned: (model: OwnedModel) => boolean;
  readonly stopping: () => boolean;
  readonly publish: (record: ModelRecord) => Promise<void>;
  /** Gives the lease back. */
  readonly giveBack: (name: string) => Promise<void>;
  /** See Owner. */
  readonly taken: (name: string) => void;
  /** Begins to load a model that an ensemble wants, unless its turn is another's. */
  readonly loadModel: (name: string) => void;
  readonly throwIfStopping: () => void;
  readonly throwIfLost: (model: OwnedModel) => void;
}

/** A load whose files are read. */
export interface BegunLoad {
  /** Of an ensemble it waits for its models; of any other model it is over already. */
  readonly ended: Promise<ModelRecord>;
}

/** Whether the models of an ensemble that have no version ready are loaded too (Triton: the dependency graph). */
export type LoadedModels = 'with models' | 'alone';

/** Loads models from their files, and unloads them. Each call is one model's turn. */
export interface ModelLoads {
  /** Rejects with why the model is not loaded; of an ensemble, `ended` may too. */
  begin(name: string, what: LoadedModels): Promise<BegunLoad>;
  /** Both parts of it. */
  load(name: string, what?: LoadedModels): Promise<ModelRecord>;
  /** Lets what was accepted end, then has the workers drop the model. */
  retire(model: OwnedModel): Promise<void>;
  /** An ensemble whose load has failed for its models waits for them no more. */
  giveUp(ensemble: OwnedModel): Promise<void>;
}

export function createModelLoads(parts: ModelLoadsParts): ModelLoads {
  const { log, reader, conditions, keeper, models, leases, workers, unreadable } = parts;
  const { isOwned, publish, giveBack, throwIfLost, throwIfStopping } = parts;

  /** What `reader` says. Where a model's files are at fault, not its config, its record tells so. */
  const read = async (name: string): Promise<ModelSource> => {
    try {
      return await reader.read(name);
    } catch (error) {
      const info = errorInfo(error);
      const held = models.get(name);
      if (held !== undefined && hasQueues(held)) throw error;
      unreadable.add(name);
      if (info.reason !== LOAD_FAILED) {
        if (held === undefined) await giveBack(name);
        throw error;
      }
      const record = await unreadRecord(name, info, reader);
      models.delete(name);
      await publish(record);
      throw new NereidError('INVALID_ARG', unreadFailure(record, info), { cause: error });
    }
  };

  const begin = async (name: string, what: LoadedModels): Promise<BegunLoad> => {
    let ended: Promise<ModelRecord>;
    try {
      const opened = await openFiles(name);
      ended = 'record' in opened ? Promise.resolve(opened.record) : finish(opened.model, opened.refusal, what);
      if ('record' in opened || !isEnsemble(opened.model)) await ended;
    } catch (error) {
      parts.taken(name);
      throw error;
    }
    return { ended: ended.finally(() => parts.taken(name)) };
  };

  const load = async (name: string, what: LoadedModels = 'alone'): Promise<ModelRecord> =>
    (await begin(name, what)).ended;

  /** What is to be loaded, and why it cannot be; or the record of a model that is as its files are. */
  const openFiles = async (name: string) => {
    throwIfStopping();
    unreadable.delete(name);
    await leases.acquire(name);
    const source = await read(name);
    throwIfStopping();
    const held = models.get(name);
    if (held !== undefined && hasQueues(held)) {
      const ready = held.phase === 'serving' && held.versions.every(({ state }) => state === 'READY');
      if (ready && held.source.contentHash === source.contentHash) return { record: modelRecord(held) };
      await retire(held);
    }
    const epoch = leases.epoch(name);
    if (epoch === undefined) throw new NereidError('UNAVAILABLE', `the lease of model '${name}' was lost`);
    const model = loadedModel(source, epoch, held);
    models.set(name, model);
    await publish(modelRecord(model));
    log.info({ model: name, versions: source.versions }, 'loading model');
    const refusal = unsupportedText(source) ?? (await openStrategies(model, source.directory, parts));
    if (!isOwned(model)) closeStrategies(model);
    return { model, refusal };
  };

  const finish = async (model: OwnedModel, refusal: string | undefined, what: LoadedModels): Promise<ModelRecord> => {
    const { name } = model;
    if (refusal !== undefined) setStates(model, 'UNAVAILABLE', refusal);
    else if (isEnsemble(model)) await waitForModels(model, what);
    else await loadOnWorkers(model);
    if (model.versions.some(({ state }) => state !== 'READY')) return fail(model);
    throwIfLost(model);
    model.phase = 'serving';
    openQueues(model, parts.queues);
    keeper.rewrite(model);
    // What waits already goes in before there is an instance, so that its batches are those of one queue.
    parts.taken(name);
    workers.offerInstances(model);
    throwIfLost(model);
    await publish(modelRecord(model));
    log.info({ model: name, versions: model.source.versions }, 'model is ready');
    return modelRecord(model);
  };

  const waitForModels = async (model: OwnedModel, what: LoadedModels) => {
    if (what === 'with models') parts.ensembles.missing(model).forEach(parts.loadModel);
    await parts.ensembles.wait(model);
    throwIfStopping();
    throwIfLost(model);
  };

  /** Ends when each version is ready on one worker, or each worker has said why not, or none takes the model. */
  const loadOnWorkers = async (model: OwnedModel) => {
    const isOver = () => loadedSomewhere(model) || loadSettled(model) || isUnheld(model);
    workers.tellAll(model, 'load');
    do {
      await conditions.wait(() => parts.stopping() || !isOwned(model) || isOver());
      throwIfStopping();
      throwIfLost(model);
      // Between the check and here another worker may have come.
    } while (!isOver());
    model.unheld = !loadedSomewhere(model) && isUnheld(model);
    for (const version of model.versions) Object.assign(version, stateAtWorkers(model, version.version));
  };

  /** All or nothing: where one version failed, those that loaded are dropped again. */
  const fail = async (model: OwnedModel): Promise<never> => {
    model.phase = 'failed';
    closeStrategies(model);
    const text = loadFailure(model);
    workers.tellAll(model, 'unload');
    await conditions.wait(() => parts.stopping() || !isOwned(model) || unloadSettled(model));
    throwIfLost(model);
    for (const version of model.versions) {
      if (version.state === 'READY') Object.assign(version, { state: 'UNAVAILABLE', reason: UNLOADED });
    }
    await publish(modelRecord(model));
    if (model.unheld && !isEnsemble(model))
      log.warn({ model: model.name }, 'no worker holds the model; it is loaded once one joins that does');
    throw new NereidError('INVALID_ARG', text);
  };

  const retire = async (model: OwnedModel) => {
    model.phase = 'unloading';
    model.awaitsModels = false;
    drainQueues(model);
    setStates(model, 'UNLOADING', '');
    await publish(modelRecord(model));
    await conditions.wait(() => parts.stopping() || !isOwned(model) || isIdle(model));
    throwIfStopping();
    throwIfLost(model);
    closeQueues(model);
    void keeper.forget([model]);
    workers.tellAll(model, 'unload');
    await conditions.wait(() => parts.stopping() || !isOwned(model) || unloadSettled(model));
    throwIfStopping();
    throwIfLost(model);
    model.phase = 'unloaded';
    setStates(model, 'UNAVAILABLE', UNLOADED);
    await publish(modelRecord(model));
    log.info({ model: model.name }, 'model is unloaded');
  };

  const giveUp = async (ensemble: OwnedModel) => {
    ensemble.awaitsModels = false;
    ensemble.phase = 'unloaded';
    setStates(ensemble, 'UNAVAILABLE', UNLOADED);
    await publish(modelRecord(ensemble));
  };

  return { begin, load, retire, giveUp };
}
