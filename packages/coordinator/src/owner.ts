import type { ModelRecord, PlacementMode } from '@nereid/config';
import {
  compareEpochs,
  type DescribedMessage,
  type DoneMessage,
  NereidError,
  type ProcessId,
  type RefusedMessage,
  STOPPING,
  stillUnloading,
  thrownError,
} from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { AtMost, Clock, Log } from '@nereid/runtime';
import type { Directory, Mailbox, Timing } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import { createEnsembleStates } from './ensemble-states.ts';
import { inTime } from './in-time.ts';
import { createTurns } from './in-turn.ts';
import type { JobIntake } from './job-intake.ts';
import { createLeases } from './leases.ts';
import { createModelLoads } from './model-loads.ts';
import { abandonQueues, closeQueues, type ModelQueuesParts, type QueueLimits } from './model-queues.ts';
import { createModelWorkers } from './model-workers.ts';
import { createOnDemand, type OnDemand } from './on-demand.ts';
import { allVersions, hasQueues, modelRecord, type OwnedModel, unloadSettled } from './owned-model.ts';
import { createRetiringLoads } from './retiring-loads.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';
import type { StatisticsMetrics } from './statistics-metrics.ts';
import { createTakeover } from './takeover.ts';

export interface OwnerLimits extends QueueLimits {
  /** How long the workers of a model that was taken over have to say what they hold. */
  readonly takeover_wait_ms: number;
  /** How long the caller of an unload waits for it. */
  readonly unload_wait_ms: number;
  /** How long a request waits for a worker to hold its model, where the config does not say. */
  readonly on_demand_wait_ms: number;
}

export interface OwnerParts
  extends Pick<ModelQueuesParts, 'answer' | 'apart' | 'ensembleCalls' | 'largeTensors' | 'notes' | 'passOn'> {
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
  /** `--placement`. */
  readonly placement: PlacementMode;
  /** Undefined where jobs are not served. */
  readonly jobs: JobIntake | undefined;
  /** The model has been taken or loaded, or could not be: what came for it meanwhile can be handled. */
  readonly taken: (name: string) => void;
  /** Models are loaded when somebody asks for them, or for an ensemble of them. */
  readonly loadsOnDemand: boolean;
  /** An ensemble that is loaded has this model loaded too. */
  readonly implied: (name: string) => void;
  /** Bounds how many models are read and loaded at a time, of those that nobody waits for. */
  readonly limitLoads: AtMost;
}

/** Owns models: their leases, what workers are told to hold, and what is published of them. */
export interface Owner {
  /** Of an ensemble its models are loaded too, those that are not ready. Rejects with why the model is not loaded. */
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
  /** Those whose lease it holds. */
  owned(): readonly string[];
  /** Those whose files are at fault, so that nobody owns them. */
  unread(): readonly string[];
  /** Whether it is being taken, loaded or unloaded. */
  busy(name: string): boolean;
  /** Whether it is owned, and is loaded once a worker joins that takes it. */
  waitsForHolder(name: string): boolean;
  /** Whether its lease is being taken now. */
  taking(name: string): boolean;
  /** A record in the directory changed. */
  recordChanged(name: string): void;
  /** The directory's belief of the model's owner may have changed. */
  ownerChanged(name: string): void;
  /** Messages may have been lost. */
  interrupted(): void;
  /** Looks after leases that could not be renewed, and models whose owner changed unheard. */
  checkLeases(): void;
  readonly onDemand: Pick<OnDemand, 'desired' | 'isUnheld' | 'pin' | 'prefetch' | 'refuseWaiting' | 'report'>;
  /** A request came for the model: where no worker holds it, one may have to. */
  arrived(model: OwnedModel): void;
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
  const { id, clock, log, directory, keeper, conditions, models, limits } = parts;
  const turns = createTurns();
  const published = new Set<string>();
  /** Models that cannot be read: nothing is tried again until somebody asks. */
  const unreadable = new Set<string>();

  const onDemand: OnDemand = createOnDemand({
    ...parts,
    mode: parts.placement,
    wait_ms: limits.on_demand_wait_ms,
    place: (model, worker) => workers.tell(model, worker, 'load'),
    letGo: (model, worker) => workers.tell(model, worker, 'unload'),
    ask: (model, worker) => workers.tell(model, worker, 'ask'),
    changed: publishLater,
    refresh: (model) => workers.refresh(model),
  });

  const workers = createModelWorkers({
    ...parts,
    onDemand,
    changed: publishLater,
    holderCame: (model) => {
      // Its failure is published.
      loadInTurn(model.name).catch(() => {});
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

  const isOwned = (model: OwnedModel) => {
    const owned = models.get(model.name);
    return owned === model || owned?.next === model;
  };

  /** Another owner will get each request again, so nobody is told. */
  const drop = (model: OwnedModel) => {
    if (!isOwned(model)) return;
    log.warn({ model: model.name, owner: directory.owner(model.name)?.owner }, 'lease lost');
    models.delete(model.name);
    published.delete(model.name);
    leases.forget(model.name);
    onDemand.forget(model.name);
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
    if (models.get(model.name) !== model) return;
    publish(modelRecord(model)).catch((error) => log.error({ err: error, model: model.name }, 'record not published'));
  }

  const giveBack = async (name: string) => {
    leases.forget(name);
    onDemand.forget(name);
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

  /** Models that are to be loaded here. */
  const coming = new Set<string>();

  const ensembles = createEnsembleStates({
    ...parts,
    isComing: (name) => coming.has(name),
    changed: publishLater,
    reload(model) {
      // Its failure is published.
      loadInTurn(model.name).catch(() => {});
    },
  });

  /** Ensembles wait for the end of it. */
  const awaited = async <T>(name: string, load: () => Promise<T>): Promise<T> => {
    coming.add(name);
    try {
      return await load();
    } finally {
      coming.delete(name);
      ensembles.modelChanged(name);
    }
  };

  const retiring = createRetiringLoads({ ...parts, workers, isOwned, changed: publishLater });

  const loads = createModelLoads({
    ...parts,
    retiring,
    ensembles,
    leases,
    workers,
    unreadable,
    queues: queueParts,
    isOwned,
    publish,
    giveBack,
    throwIfStopping,
    throwIfLost,
    loadModel(name) {
      parts.implied(name);
      // What does not load, the ensemble tells of.
      if (!turns.busy(name)) loadWithModels(name).catch(() => {});
    },
  });

  const loadInTurn = (name: string) => turns.run(name, () => awaited(name, () => loads.load(name)));

  const loadWithModels = (name: string): Promise<ModelRecord> =>
    turns.run(name, () => awaited(name, () => loads.load(name, 'with models')));

  const takeover = createTakeover({
    ...parts,
    retiring,
    ensembles,
    leases,
    workers,
    queues: queueParts,
    answer_wait_ms: limits.takeover_wait_ms,
    publish: publishLater,
    beginLoad: (name, anew) => loads.begin(name, anew && parts.loadsOnDemand ? 'with models' : 'alone'),
  });

  return {
    load: loadWithModels,

    unload(name) {
      const over = turns.run(name, async () => {
        throwIfStopping();
        const model = models.get(name);
        if (model === undefined) return;
        if (hasQueues(model)) await loads.retire(model);
        else if (model.awaitsModels) await loads.giveUp(model);
      });
      // Triton does not wait at all; what was accepted ends in any case.
      return inTime(clock, limits.unload_wait_ms, over, () => thrownError(stillUnloading(name, limits.unload_wait_ms)));
    },

    take: (name, anew) =>
      turns.run(name, async () => {
        throwIfStopping();
        await awaited(name, () => takeover.take(name, anew));
      }),
    minds: (name) => leases.has(name) || turns.busy(name) || unreadable.has(name),
    owned: leases.models,
    unread: () => [...unreadable],
    busy: turns.busy,
    waitsForHolder: (name) => models.get(name)?.unheld === true,
    taking: takeover.taking,
    ownerChanged: leases.check,
    recordChanged: ensembles.modelChanged,
    interrupted: leases.renewAll,
    checkLeases() {
      leases.retry();
      for (const name of leases.models()) leases.check(name);
    },
    onDemand,
    arrived: onDemand.look,
    probe: workers.probe,
    described: workers.described,
    workersChanged: workers.listChanged,

    done(message) {
      const model = models.get(message.model);
      if (model === undefined) return;
      const load = message.load ?? 0;
      const version = allVersions(model).find((held) => held.version === message.version && held.load === load);
      version?.queue?.done(message);
      // It came to a worker that had just let the model go.
      if (message.entries.some(({ result }) => result === 'noslot')) onDemand.look(model);
    },

    async refused(message) {
      const model = models.get(message.model);
      if (model === undefined) return;
      // Another refusal of the same epoch may have led to a higher one already.
      const outdated = compareEpochs(model.epoch, message.highest) < 0;
      if (outdated) workers.withdrawInstances(model);
      for (const { queue } of allVersions(model)) queue?.undelivered(message.batch, message.sent);
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
      onDemand.close();
      for (const name of leases.models()) await giveBack(name);
    },

    async handOver() {
      await turns.settled();
      await keeper.keep();
      for (const model of models.values()) abandonQueues(model);
      models.clear();
      takeover.close();
      onDemand.close();
      for (const name of leases.models()) {
        leases.forget(name);
        await directory.release(name, id);
      }
    },
  };
}
