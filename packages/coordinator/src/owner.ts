import { LOAD_FAILED, type ModelRecord, type ModelSource, modelSignature, unsupportedReason } from '@nereid/config';
import {
  type DescribedMessage,
  type DoneMessage,
  type Epoch,
  ERROR_TABLE,
  type ErrorInfo,
  errorInfo,
  type InferMessage,
  NereidError,
  type ProcessId,
  type RefusedMessage,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { createScheduler } from '@nereid/scheduler';
import type { Directory, Mailbox } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import { createTurns } from './in-turn.ts';
import { closeQueues, openQueues, type QueueLimits } from './model-queues.ts';
import type { ModelReader } from './model-reader.ts';
import { createModelWorkers } from './model-workers.ts';
import {
  isIdle,
  loadFailure,
  loadSettled,
  modelRecord,
  type OwnedModel,
  setStates,
  stateAtWorkers,
  UNLOADED,
  unloadSettled,
} from './owned-model.ts';
import { STOPPING } from './request-error.ts';
import type { StatisticsMetrics } from './statistics-metrics.ts';
import { unreadFailure, unreadRecord } from './unread-model.ts';

export interface OwnerLimits extends QueueLimits {
  /** How long a load waits for a first worker. */
  readonly worker_wait_ms: number;
}

export interface OwnerParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly reader: ModelReader;
  readonly metrics: StatisticsMetrics;
  readonly conditions: Conditions;
  readonly models: Map<string, OwnedModel>;
  readonly limits: OwnerLimits;
  readonly stopping: () => boolean;
  readonly answer: (message: InferMessage, error: ErrorInfo) => void;
}

/** Owns models: their leases, what workers are told to hold, and what is published of them. */
export interface Owner {
  /** Rejects with why the model is not loaded. */
  load(name: string): Promise<ModelRecord>;
  /** Resolves once what was accepted has ended and no worker holds the model; at once for an unknown one. */
  unload(name: string): Promise<void>;
  described(message: DescribedMessage): void;
  done(message: DoneMessage): void;
  refused(message: RefusedMessage): Promise<void>;
  /** The directory's list of processes changed. */
  workersChanged(): void;
  /** Lets workers drop all models, gives the leases back. Waits are cut short by `conditions.abandon`. */
  release(): Promise<void>;
}

export function createOwner(parts: OwnerParts): Owner {
  const { id, clock, log, directory, reader, conditions, models, limits } = parts;
  const turns = createTurns();
  const leases = new Map<string, Epoch>();
  const published = new Set<string>();
  const workers = createModelWorkers({
    ...parts,
    // Nobody waits for this one; the next change publishes all again.
    changed: (model) => {
      publish(modelRecord(model)).catch((error) =>
        log.error({ err: error, model: model.name }, 'record not published'),
      );
    },
  });

  const publish = async (record: ModelRecord) => {
    published.add(record.name);
    await directory.publish(record.name, record);
  };

  const acquire = async (name: string): Promise<Epoch> => {
    const epoch = leases.get(name) ?? (await directory.acquire(name, id));
    if (epoch === undefined) {
      throw new NereidError('UNAVAILABLE', `model '${name}' is owned by coordinator ${directory.owner(name)?.owner}`);
    }
    leases.set(name, epoch);
    return epoch;
  };

  const giveBack = async (name: string) => {
    leases.delete(name);
    if (published.delete(name)) await directory.withdraw(name);
    await directory.release(name, id);
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
    throwIfStopping();
    const epoch = await acquire(name);
    const source = await read(name);
    throwIfStopping();
    const held = models.get(name);
    if (held?.phase === 'serving') {
      const ready = held.versions.every(({ state }) => state === 'READY');
      if (ready && held.source.contentHash === source.contentHash) return modelRecord(held);
      await retire(held);
    }
    const model = newModel(source, epoch, held);
    models.set(name, model);
    await publish(modelRecord(model));
    log.info({ model: name, versions: source.versions }, 'loading model');
    const unsupported = unsupportedText(source);
    if (unsupported === undefined) await loadOnWorkers(model);
    else setStates(model, 'UNAVAILABLE', `${ERROR_TABLE.UNSUPPORTED.label}: ${unsupported}`);
    if (model.versions.some(({ state }) => state !== 'READY')) return fail(model);
    model.phase = 'serving';
    openQueues(model, { ...parts, idle: conditions.check });
    workers.offerInstances(model);
    await publish(modelRecord(model));
    log.info({ model: name, versions: source.versions }, 'model is ready');
    return modelRecord(model);
  };

  const loadOnWorkers = async (model: OwnedModel) => {
    let late = false;
    workers.tellAll(model, 'load');
    const timer = clock.at(clock.nowUs() + limits.worker_wait_ms * 1000, () => {
      late = true;
      conditions.check();
    });
    await conditions.wait(() => parts.stopping() || loadSettled(model) || (late && model.workers.size === 0));
    timer.cancel();
    throwIfStopping();
    for (const version of model.versions) Object.assign(version, stateAtWorkers(model, version.version));
  };

  /** All or nothing: where one version failed, those that loaded are dropped again. */
  const fail = async (model: OwnedModel): Promise<never> => {
    model.phase = 'failed';
    const text = loadFailure(model);
    workers.tellAll(model, 'unload');
    await conditions.wait(() => parts.stopping() || unloadSettled(model));
    for (const version of model.versions) {
      if (version.state === 'READY') Object.assign(version, { state: 'UNAVAILABLE', reason: UNLOADED });
    }
    await publish(modelRecord(model));
    throw new NereidError('INVALID_ARG', text);
  };

  /** Lets what was accepted end, then has the workers drop the model. */
  const retire = async (model: OwnedModel) => {
    model.phase = 'unloading';
    setStates(model, 'UNLOADING', '');
    await publish(modelRecord(model));
    await conditions.wait(() => parts.stopping() || isIdle(model));
    throwIfStopping();
    closeQueues(model);
    workers.tellAll(model, 'unload');
    await conditions.wait(() => parts.stopping() || unloadSettled(model));
    throwIfStopping();
    model.phase = 'unloaded';
    setStates(model, 'UNAVAILABLE', UNLOADED);
    await publish(modelRecord(model));
    log.info({ model: model.name }, 'model is unloaded');
  };

  /** R4: goes above the epoch that a worker has seen; what was refused is queued again by then. */
  const renew = async (model: OwnedModel, above: number) => {
    const epoch = await directory.acquire(model.name, id, above);
    if (epoch !== undefined) {
      model.epoch = epoch;
      leases.set(model.name, epoch);
      workers.tellAll(model, 'load');
      return;
    }
    log.error({ model: model.name, owner: directory.owner(model.name)?.owner }, 'lease lost to another owner');
    closeQueues(model);
    models.delete(model.name);
    leases.delete(model.name);
  };

  return {
    load: (name) => turns.run(name, () => load(name)),

    unload: (name) =>
      turns.run(name, async () => {
        throwIfStopping();
        const model = models.get(name);
        if (model?.phase === 'serving') await retire(model);
      }),

    described: workers.described,
    workersChanged: workers.listChanged,

    done(message) {
      const version = models.get(message.model)?.versions.find((candidate) => candidate.version === message.version);
      version?.queue?.done(message);
    },

    async refused(message) {
      const model = models.get(message.model);
      if (model === undefined) return;
      workers.withdrawInstances(model);
      for (const { queue } of model.versions) queue?.undelivered(message.batch);
      // Another refusal of the same epoch has led to a higher one already.
      if (model.epoch.number <= message.highest.number) await renew(model, message.highest.number);
    },

    async release() {
      // Loads and unloads on their way end now, since the coordinator is stopping.
      await turns.settled();
      const held = [...models.values()];
      for (const model of held) {
        closeQueues(model);
        workers.tellAll(model, 'unload');
      }
      await conditions.wait(() => held.every(unloadSettled));
      models.clear();
      for (const name of [...leases.keys()]) await giveBack(name);
    },
  };
}

function newModel(source: ModelSource, epoch: Epoch, held: OwnedModel | undefined): OwnedModel {
  const known = held === undefined ? [] : [...held.formerVersions, ...held.versions.map(({ version }) => version)];
  return {
    name: source.name,
    epoch,
    source,
    signature: modelSignature(source.config),
    phase: 'loading',
    versions: source.versions.map((version) => ({
      version,
      state: 'LOADING',
      reason: '',
      queue: undefined,
      hideMetrics: undefined,
    })),
    formerVersions: known.filter((version) => !source.versions.includes(version)),
    workers: new Map(),
    // Batch numbers go on rising, so that a late `done` of an earlier load finds nothing.
    batches: held?.batches ?? 0,
  };
}

/** Why a model is not to be served as configured, asked of the config and of the scheduler. */
function unsupportedText({ config }: ModelSource): string | undefined {
  const reason = unsupportedReason(config);
  if (reason !== undefined) return reason;
  try {
    createScheduler(config);
    return undefined;
  } catch (error) {
    return errorInfo(error).message;
  }
}
