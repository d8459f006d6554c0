import { LOAD_FAILED, type ModelRecord, type ModelSource, sourceChange } from '@nereid/config';
import { errorInfo, NereidError, UNLOADED } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import type { EnsembleStates } from './ensemble-states.ts';
import type { Leases } from './leases.ts';
import { closeQueues, drainQueues, type ModelQueuesParts, openQueues } from './model-queues.ts';
import { closeStrategies, openStrategies } from './model-strategies.ts';
import type { ModelWorkers } from './model-workers.ts';
import { adoptNext, isEnsembleSource, loadedModel, nextLoad, unsupportedText } from './new-model.ts';
import {
  changeSource,
  hasQueues,
  instancesChanged,
  isEnsemble,
  isIdle,
  isUnheld,
  loadedSomewhere,
  loadFailure,
  loadSettled,
  modelRecord,
  type OwnedModel,
  setStates,
  unloadSettled,
} from './owned-model.ts';
import type { RetiringLoads } from './retiring-loads.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';
import { unreadFailure, unreadRecord } from './unread-model.ts';

export interface ModelLoadsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: Pick<Directory<ModelRecord>, 'record'>;
  readonly reader: ModelReader;
  readonly models: Map<string, OwnedModel>;
  readonly conditions: Conditions;
  readonly keeper: StatisticsKeeper;
  readonly leases: Leases;
  readonly workers: ModelWorkers;
  readonly ensembles: Pick<EnsembleStates, 'missing' | 'wait'>;
  readonly queues: ModelQueuesParts;
  readonly retiring: RetiringLoads;
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
      if (held !== undefined && hasQueues(held)) {
        if (info.reason !== LOAD_FAILED) throw error;
        const text = unreadFailure(await unreadRecord(name, info, reader), info);
        throw new NereidError('INVALID_ARG', text, { cause: error });
      }
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
      const source = await readOwned(name);
      const held = models.get(name);
      if (held !== undefined && hasQueues(held) && isSameKind(held, source)) ended = reload(held, source, what);
      else {
        if (held !== undefined && hasQueues(held)) await retire(held);
        ended = finish(await open(source, held), what);
      }
      if (!isEnsembleSource(source)) await ended;
    } catch (error) {
      parts.taken(name);
      throw error;
    }
    return { ended: ended.finally(() => parts.taken(name)) };
  };

  const load = async (name: string, what: LoadedModels = 'alone'): Promise<ModelRecord> =>
    (await begin(name, what)).ended;

  const readOwned = async (name: string): Promise<ModelSource> => {
    throwIfStopping();
    unreadable.delete(name);
    await leases.acquire(name);
    const source = await read(name);
    throwIfStopping();
    return source;
  };

  /** Of a model that does not serve: announces its load. */
  const open = async (source: ModelSource, held: OwnedModel | undefined): Promise<OwnedModel> => {
    const { name } = source;
    const epoch = leases.epoch(name);
    if (epoch === undefined) throw new NereidError('UNAVAILABLE', `the lease of model '${name}' was lost`);
    const model = loadedModel(source, epoch, held, parts.directory.record(name));
    models.set(name, model);
    await publish(modelRecord(model));
    log.info({ model: name, versions: source.versions }, 'loading model');
    return model;
  };

  /** Its versions' states are then what came of it. */
  const prepare = async (model: OwnedModel, what: LoadedModels): Promise<void> => {
    const refusal = unsupportedText(model.source) ?? (await openStrategies(model, model.source.directory, parts));
    if (!isOwned(model)) closeStrategies(model.versions);
    if (refusal !== undefined) setStates(model, 'UNAVAILABLE', refusal);
    else if (isEnsemble(model)) await waitForModels(model, what);
    else await loadOnWorkers(model);
  };

  const finish = async (model: OwnedModel, what: LoadedModels): Promise<ModelRecord> => {
    const { name } = model;
    await prepare(model, what);
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

  /** Loads what differs from what serves beside that, so that no request notices. */
  const reload = async (model: OwnedModel, source: ModelSource, what: LoadedModels): Promise<ModelRecord> => {
    const change = sourceChange(model.source, source);
    const isReady = model.versions.every(({ state }) => state === 'READY');
    if (isReady && change === 'same') return modelRecord(model);
    if (isReady && change === 'instances') await changeInstances(model, source);
    else await swap(model, source, what);
    await publish(modelRecord(model));
    return modelRecord(model);
  };

  /** All or nothing: a load of which a version fails leaves what serves as it is. */
  const swap = async (model: OwnedModel, source: ModelSource, what: LoadedModels): Promise<void> => {
    const { name } = model;
    const next = nextLoad(source, model);
    model.next = next;
    log.info({ model: name, versions: source.versions, load: next.load }, 'loading model beside the one that serves');
    try {
      await prepare(next, what);
      throwIfLost(next);
      if (next.versions.some(({ state }) => state !== 'READY')) {
        throw new NereidError('INVALID_ARG', loadFailure(next));
      }
    } catch (error) {
      model.next = undefined;
      closeStrategies(next.versions);
      if (isOwned(model)) workers.tellAll(model, 'load');
      log.warn({ err: error, model: name }, 'reload failed: what served before goes on');
      throw error;
    }
    adoptNext(model, next, parts.clock.nowUs());
    openQueues(model, parts.queues);
    keeper.rewrite(model);
    workers.offerInstances(model);
    parts.retiring.end(model);
    log.info({ model: name, versions: source.versions, load: next.load }, 'model is loaded anew');
  };

  /** Under the same load: each worker adds and removes instances beside those that go on. */
  const changeInstances = async (model: OwnedModel, source: ModelSource): Promise<void> => {
    const before = model.source;
    const isOver = () => instancesChanged(model, source.contentHash) !== 'coming';
    changeSource(model, source);
    workers.tellAll(model, 'load');
    await conditions.wait(() => parts.stopping() || !isOwned(model) || isOver());
    throwIfStopping();
    throwIfLost(model);
    const failed = instancesChanged(model, source.contentHash);
    if (failed === 'changed' || failed === 'coming') return;
    changeSource(model, before);
    workers.tellAll(model, 'load');
    throw new NereidError('INVALID_ARG', `load failed for model '${model.name}': ${failed.reason}`);
  };

  const waitForModels = async (model: OwnedModel, what: LoadedModels) => {
    if (what === 'with models') parts.ensembles.missing(model).forEach(parts.loadModel);
    await parts.ensembles.wait(model);
    throwIfStopping();
    throwIfLost(model);
  };

  /** Ends when each version is ready on one worker, or each worker has said why not, or none takes the model. */
  const loadOnWorkers = async (model: OwnedModel) => {
    const owned = models.get(model.name) ?? model;
    // What serves goes on until all have it that will; else the first one is enough to begin.
    const isOver = () => (owned === model && loadedSomewhere(model)) || loadSettled(model) || isUnheld(model);
    workers.tellAll(owned, 'load');
    do {
      await conditions.wait(() => parts.stopping() || !isOwned(model) || isOver());
      throwIfStopping();
      throwIfLost(model);
      // Between the check and here another worker may have come.
    } while (!isOver());
    for (const version of model.versions) Object.assign(version, workers.standing(model, version));
    const isServed = model.versions.every(({ state }) => state === 'READY');
    model.unheld = !isServed && !loadedSomewhere(model) && isUnheld(model);
  };

  /** All or nothing: where one version failed, those that loaded are dropped again. */
  const fail = async (model: OwnedModel): Promise<never> => {
    model.phase = 'failed';
    closeStrategies(model.versions);
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

/** Ensembles and models on workers are served in different ways: one takes the other's place only once that has ended. */
function isSameKind(model: OwnedModel, source: ModelSource): boolean {
  return model.phase === 'serving' && isEnsemble(model) === isEnsembleSource(source);
}
