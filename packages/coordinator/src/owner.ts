import { LOAD_FAILED, type ModelRecord, type ModelSource } from '@nereid/config';
import {
  compareEpochs,
  type DescribedMessage,
  type DoneMessage,
  errorInfo,
  NereidError,
  type ProcessId,
  type RefusedMessage,
  STOPPING,
  UNLOADED,
} from '@nereid/protocol';
import type { AtMost, Clock, Log } from '@nereid/runtime';
import type { Directory, Mailbox, Timing } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import { inTime } from './in-time.ts';
import { createTurns } from './in-turn.ts';
import type { JobIntake } from './job-intake.ts';
import { createLeases } from './leases.ts';
import {
  abandonQueues,
  closeQueues,
  drainQueues,
  type ModelQueuesParts,
  openQueues,
  type QueueLimits,
} from './model-queues.ts';
import type { ModelReader } from './model-reader.ts';
import { closeStrategies, openStrategies } from './model-strategies.ts';
import { createModelWorkers } from './model-workers.ts';
import { loadedModel, unsupportedText } from './new-model.ts';
import {
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
import { stillUnloading } from './request-error.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';
import type { StatisticsMetrics } from './statistics-metrics.ts';
import { createTakeover } from './takeover.ts';
import { unreadFailure, unreadRecord } from './unread-model.ts';

export interface OwnerLimits extends QueueLimits {
  /** How long the workers of a model that was taken over have to say what they hold. */
  readonly takeover_wait_ms: number;
  /** How long the caller of an unload waits for it. */
  readonly unload_wait_ms: number;
}

export interface OwnerParts extends Pick<ModelQueuesParts, 'answer' | 'apart' | 'largeTensors' | 'passOn'> {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly reader: ModelReader;
  readonly metrics: StatisticsMetrics;
  readonly keeper: StatisticsKeeper;
  readonly conditions: Conditions;
  readonly models: Map<string, OwnedModel>;
  readonly limits: OwnerLimits;
  readonly stopping: () => boolean;
  /** Undefined where jobs are not served. */
  readonly jobs: JobIntake | undefined;
  /** The model has been taken or loaded, or could not be: what came for it meanwhile can be handled. */
  readonly taken: (name: string) => void;
  /** Bounds how many models are read and loaded at a time, of those that nobody waits for. */
  readonly limitLoads: AtMost;
}

/** Owns models: their leases, what workers are told to hold, and what is published of them. */
export interface Owner {
  /** Rejects with why the model is not loaded. */
  load(name: string): Promise<ModelRecord>;
  /**
   * Resolves once what was accepted has ended and no worker holds the model; at once for an unknown one.
   * Rejects with UNAVAILABLE where that takes longer than `unload_wait_ms`; the unload goes on.
   */
  unload(name: string): Promise<void>;
  /**
   * Takes the model's free lease. A model that its record says is served goes on being served, at
   * once; any other is loaded, and where it was unloaded on purpose that only with `anew`. Rejects
   * with why the model is not loaded, or not taken.
   */
  take(name: string, anew: boolean): Promise<void>;
  /** Whether it is owned, on the way to be, or cannot be for its files. */
  minds(name: string): boolean;
  /** Whether it is owned, and is loaded once a worker joins that takes it. */
  waitsForHolder(name: string): boolean;
  /** Whether its lease is being taken now. */
  taking(name: string): boolean;
  /** The directory's belief of the model's owner may have changed. */
  ownerChanged(name: string): void;
  /** Messages may have been lost. */
  interrupted(): void;
  /** Looks after leases that could not be renewed, and models whose owner changed unheard. */
  checkLeases(): void;
  /** Asks workers after what may have been lost. */
  probe(timing: Timing): void;
  described(message: DescribedMessage): void;
  done(message: DoneMessage): void;
  refused(message: RefusedMessage): Promise<void>;
  /** The directory's list of processes changed. */
  workersChanged(): void;
  /** Lets workers drop all models, gives the leases back. Waits are cut short by `conditions.abandon`. */
  release(): Promise<void>;
  /** Gives the leases back and leaves all else as it is, for other coordinators to take over. */
  handOver(): Promise<void>;
}

export function createOwner(parts: OwnerParts): Owner {
  const { id, clock, log, directory, reader, keeper, conditions, models, limits } = parts;
  const turns = createTurns();
  const published = new Set<string>();
  /** Models that cannot be read: nothing is tried again until somebody asks. */
  const unreadable = new Set<string>();

  const workers = createModelWorkers({
    ...parts,
    changed: publishLater,
    holderCame: (model) => {
      // Its failure is published.
      turns.run(model.name, () => load(model.name)).catch(() => {});
    },
  });

  const leases = createLeases({
    id,
    log,
    directory,
    renewed(name, epoch) {
      const model = models.get(name);
      if (model === undefined) return;
      model.epoch = epoch;
      keeper.rewrite(model);
      const unloading = [...model.workers.values()].some(({ told }) => told === 'unload');
      workers.tellAll(model, unloading ? 'unload' : 'load');
      if (published.has(name)) publishLater(model);
    },
    lost(name) {
      const model = models.get(name);
      published.delete(name);
      if (model !== undefined) drop(model);
    },
  });

  const isOwned = (model: OwnedModel) => models.get(model.name) === model;

  /** Another owner will get each request again, so nobody is told. */
  const drop = (model: OwnedModel) => {
    if (!isOwned(model)) return;
    log.warn({ model: model.name, owner: directory.owner(model.name)?.owner }, 'lease lost');
    models.delete(model.name);
    published.delete(model.name);
    leases.forget(model.name);
    abandonQueues(model);
    parts.taken(model.name);
    conditions.check();
  };

  const queueParts = {
    ...parts,
    idle: conditions.check,
    holdsLease: ({ name }: OwnedModel) => directory.holds(name, id),
    leaseLost: drop,
  };

  const publish = async (record: ModelRecord) => {
    published.add(record.name);
    await directory.publish(record.name, record);
  };

  /** Nobody waits for it; the next change publishes all again. */
  function publishLater(model: OwnedModel): void {
    if (!isOwned(model)) return;
    publish(modelRecord(model)).catch((error) => log.error({ err: error, model: model.name }, 'record not published'));
  }

  const giveBack = async (name: string) => {
    leases.forget(name);
    if (published.delete(name)) await directory.withdraw(name);
    await directory.release(name, id);
  };

  const throwIfLost = (model: OwnedModel) => {
    if (isOwned(model)) return;
    throw new NereidError('UNAVAILABLE', `the lease of model '${model.name}' was lost; try again in a few seconds`);
  };

  const throwIfStopping = () => {
    if (parts.stopping()) throw new NereidError(STOPPING.code, STOPPING.message);
  };

  /** What `reader` says. Where a model's files are at fault, not its config, its record tells so. */
  const read = async (name: string): Promise<ModelSource> => {
    try {
      return await reader.read(name);
    } catch (error) {
      const info = errorInfo(error);
      const phase = models.get(name)?.phase;
      if (phase === 'serving') throw error;
      unreadable.add(name);
      if (info.reason !== LOAD_FAILED) {
        if (phase === undefined) await giveBack(name);
        throw error;
      }
      const record = await unreadRecord(name, info, reader);
      models.delete(name);
      await publish(record);
      throw new NereidError('INVALID_ARG', unreadFailure(record, info), { cause: error });
    }
  };

  const load = async (name: string): Promise<ModelRecord> => {
    try {
      return await loadFiles(name);
    } finally {
      parts.taken(name);
    }
  };

  const loadFiles = async (name: string): Promise<ModelRecord> => {
    throwIfStopping();
    unreadable.delete(name);
    await leases.acquire(name);
    const source = await read(name);
    throwIfStopping();
    const held = models.get(name);
    if (held?.phase === 'serving') {
      const ready = held.versions.every(({ state }) => state === 'READY');
      if (ready && held.source.contentHash === source.contentHash) return modelRecord(held);
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
    if (refusal === undefined) await loadOnWorkers(model);
    else setStates(model, 'UNAVAILABLE', refusal);
    if (model.versions.some(({ state }) => state !== 'READY')) return fail(model);
    model.phase = 'serving';
    openQueues(model, queueParts);
    keeper.rewrite(model);
    // What waits already goes in before there is an instance, so that its batches are those of one queue.
    parts.taken(name);
    workers.offerInstances(model);
    throwIfLost(model);
    await publish(modelRecord(model));
    log.info({ model: name, versions: source.versions }, 'model is ready');
    return modelRecord(model);
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
    if (model.unheld)
      log.warn({ model: model.name }, 'no worker holds the model; it is loaded once one joins that does');
    throw new NereidError('INVALID_ARG', text);
  };

  /** Lets what was accepted end, then has the workers drop the model. */
  const retire = async (model: OwnedModel) => {
    model.phase = 'unloading';
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

  const takeover = createTakeover({
    ...parts,
    leases,
    workers,
    queues: queueParts,
    answer_wait_ms: limits.takeover_wait_ms,
    publish: publishLater,
    load,
  });

  return {
    load: (name) => turns.run(name, () => load(name)),

    unload(name) {
      const over = turns.run(name, async () => {
        throwIfStopping();
        const model = models.get(name);
        if (model?.phase === 'serving') await retire(model);
      });
      // Triton does not wait at all; what was accepted ends in any case.
      return inTime(clock, limits.unload_wait_ms, over, () => stillUnloading(name, limits.unload_wait_ms));
    },

    take: (name, anew) =>
      turns.run(name, async () => {
        throwIfStopping();
        await takeover.take(name, anew);
      }),
    minds: (name) => leases.has(name) || turns.busy(name) || unreadable.has(name),
    waitsForHolder: (name) => models.get(name)?.unheld === true,
    taking: takeover.taking,
    ownerChanged: leases.check,
    interrupted: leases.renewAll,
    checkLeases() {
      leases.retry();
      for (const name of leases.models()) leases.check(name);
    },
    probe: workers.probe,
    described: workers.described,
    workersChanged: workers.listChanged,

    done(message) {
      const version = models.get(message.model)?.versions.find((candidate) => candidate.version === message.version);
      version?.queue?.done(message);
    },

    async refused(message) {
      const model = models.get(message.model);
      if (model === undefined) return;
      // Another refusal of the same epoch may have led to a higher one already.
      const outdated = compareEpochs(model.epoch, message.highest) < 0;
      if (outdated) workers.withdrawInstances(model);
      for (const { queue } of model.versions) queue?.undelivered(message.batch, message.sent);
      if (outdated) await leases.renew(model.name, message.highest.number);
    },

    async release() {
      // Loads and unloads on their way end now, since the coordinator is stopping.
      await turns.settled();
      const held = [...models.values()];
      for (const model of held) {
        closeQueues(model);
        workers.tellAll(model, 'unload');
      }
      await keeper.forget(held);
      await conditions.wait(() => held.every(unloadSettled));
      models.clear();
      takeover.close();
      for (const name of leases.models()) await giveBack(name);
    },

    async handOver() {
      await turns.settled();
      await keeper.keep();
      for (const model of models.values()) abandonQueues(model);
      models.clear();
      takeover.close();
      for (const name of leases.models()) {
        leases.forget(name);
        await directory.release(name, id);
      }
    },
  };
}
