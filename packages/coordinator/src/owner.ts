import {
  decodeModelConfig,
  encodeModelConfig,
  LOAD_FAILED,
  type ModelRecord,
  type ModelSource,
  modelSignature,
  unsupportedReason,
} from '@nereid/config';
import {
  type ControlMessage,
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
import { batchesDynamically, createScheduler } from '@nereid/scheduler';
import type { Directory, Mailbox } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import { createVersionQueue, type OwnedRequest } from './dispatch.ts';
import { createTurns } from './in-turn.ts';
import type { ModelReader } from './model-reader.ts';
import { createModelStatistics } from './model-statistics.ts';
import {
  isIdle,
  loadFailure,
  loadSettled,
  modelRecord,
  type OwnedModel,
  type OwnedVersion,
  stateAtWorkers,
  UNLOADED,
  unloadSettled,
} from './owned-model.ts';
import { STOPPING, versionNotReady } from './request-error.ts';
import type { StatisticsMetrics } from './statistics-metrics.ts';

export interface OwnerLimits {
  /** Requests that may wait in a version whose config sets no max_queue_size. */
  readonly queue_max: number;
  /** Batches that an instance holds at a time, by whether the model batches dynamically. */
  readonly instance_depth: { readonly batching: number; readonly single: number };
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
  const { id, clock, log, mailbox, directory, reader, conditions, models, limits } = parts;
  const turns = createTurns();
  const leases = new Map<string, Epoch>();
  const published = new Set<string>();
  let lastAskedUs = 0;

  const publish = async (record: ModelRecord) => {
    published.add(record.name);
    await directory.publish(record.name, record);
  };

  /** For changes that nobody waits for; the next change publishes all again. */
  const republish = (model: OwnedModel) => {
    publish(modelRecord(model)).catch((error) => log.error({ err: error, model: model.name }, 'record not published'));
  };

  const acquire = async (name: string): Promise<Epoch> => {
    const epoch = leases.get(name) ?? (await directory.acquire(name, id));
    if (epoch === undefined) {
      throw new NereidError('UNAVAILABLE', `model '${name}' is owned by coordinator ${directory.owner(name)?.owner}`);
    }
    leases.set(name, epoch);
    return epoch;
  };

  /** Tells a worker what to hold, and asks at once, so that what it said before is told apart. */
  const tell = (model: OwnedModel, worker: ProcessId, action: 'load' | 'unload') => {
    lastAskedUs = Math.max(clock.nowUs(), lastAskedUs + 1);
    const askedAt = lastAskedUs;
    model.workers.set(worker, { askedAt, answered: false, versions: new Map() });
    const lost = () => {
      if (model.workers.get(worker)?.askedAt === askedAt) workerGone(model, worker);
    };
    mailbox.send(worker, controlMessage(model, action), lost);
    mailbox.send(worker, { kind: 'describe', model: model.name, epoch: model.epoch, askedAt }, lost);
  };

  const tellAll = (model: OwnedModel, action: 'load' | 'unload') => {
    const told = action === 'load' ? liveWorkers(directory) : [...model.workers.keys()];
    for (const worker of told) tell(model, worker, action);
  };

  const workerGone = (model: OwnedModel, worker: ProcessId) => {
    model.workers.delete(worker);
    for (const { queue } of model.versions) queue?.workerGone(worker);
    refresh(model);
    conditions.check();
  };

  /** Brings versions and queues of a serving model in line with what its workers hold. */
  const refresh = (model: OwnedModel) => {
    let changed = false;
    for (const version of model.versions) {
      if (version.queue === undefined) continue;
      const { state, reason } = stateAtWorkers(model, version.version);
      if (state !== 'READY') version.queue.failQueued(versionNotReady(model.name, version.version));
      if (model.phase !== 'serving' || (state === version.state && reason === version.reason)) continue;
      log.warn({ model: model.name, version: version.version, state, reason }, 'model version changed state');
      version.state = state;
      version.reason = reason;
      changed = true;
    }
    if (changed) republish(model);
  };

  const offerInstances = (model: OwnedModel, worker: ProcessId) => {
    const view = model.workers.get(worker);
    for (const { version, queue } of model.versions) {
      const held = view?.versions.get(version);
      queue?.describe(worker, held?.state === 'READY' ? held.instances : []);
    }
  };

  const openQueue = (model: OwnedModel, version: OwnedVersion) => {
    const { config } = model.source;
    const statistics = createModelStatistics();
    const depth = batchesDynamically(config) ? limits.instance_depth.batching : limits.instance_depth.single;
    const queue = createVersionQueue({
      clock,
      mailbox,
      model: model.name,
      version: version.version,
      epoch: () => model.epoch,
      nextBatch: () => ++model.batches,
      scheduler: createScheduler<OwnedRequest>(config, { queue_max: limits.queue_max }),
      instance_depth: depth,
      statistics,
      answer: parts.answer,
      idle: conditions.check,
    });
    version.queue = queue;
    version.hideMetrics = parts.metrics.add({
      model: model.name,
      version: version.version,
      tags: config.metricTags,
      statistics,
      pending: () => queue.pending,
    });
  };

  const closeQueues = (model: OwnedModel) => {
    for (const version of model.versions) {
      version.queue?.close(STOPPING);
      version.queue = undefined;
      version.hideMetrics?.();
      version.hideMetrics = undefined;
    }
  };

  const setStates = (model: OwnedModel, state: OwnedVersion['state'], reason: string) => {
    for (const version of model.versions) {
      version.state = state;
      version.reason = reason;
    }
  };

  const throwIfStopping = () => {
    if (parts.stopping()) throw new NereidError(STOPPING.code, STOPPING.message);
  };

  /** What `reader` says; where a model's files are at fault after its config, its record tells so. */
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

  const giveBack = async (name: string) => {
    leases.delete(name);
    if (published.delete(name)) await directory.withdraw(name);
    await directory.release(name, id);
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
    const unsupported = unsupportedText(model);
    if (unsupported === undefined) await loadOnWorkers(model);
    else setStates(model, 'UNAVAILABLE', `${ERROR_TABLE.UNSUPPORTED.label}: ${unsupported}`);
    if (model.versions.some(({ state }) => state !== 'READY')) return fail(model);
    model.phase = 'serving';
    for (const version of model.versions) openQueue(model, version);
    for (const worker of model.workers.keys()) offerInstances(model, worker);
    await publish(modelRecord(model));
    log.info({ model: name, versions: source.versions }, 'model is ready');
    return modelRecord(model);
  };

  const loadOnWorkers = async (model: OwnedModel) => {
    let late = false;
    tellAll(model, 'load');
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
    tellAll(model, 'unload');
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
    tellAll(model, 'unload');
    await conditions.wait(() => parts.stopping() || unloadSettled(model));
    throwIfStopping();
    model.phase = 'unloaded';
    setStates(model, 'UNAVAILABLE', UNLOADED);
    await publish(modelRecord(model));
    log.info({ model: model.name }, 'model is unloaded');
  };

  return {
    load: (name) => turns.run(name, () => load(name)),

    unload: (name) =>
      turns.run(name, async () => {
        throwIfStopping();
        const model = models.get(name);
        if (model?.phase === 'serving') await retire(model);
      }),

    described(message) {
      const model = models.get(message.model);
      const view = model?.workers.get(message.worker);
      if (model === undefined || view === undefined) return;
      if (!view.answered && message.askedAt !== view.askedAt) return;
      view.answered = true;
      // A draining worker ends what it has and is given nothing more.
      view.versions = new Map(message.draining ? [] : message.versions.map((version) => [version.version, version]));
      offerInstances(model, message.worker);
      refresh(model);
      conditions.check();
    },

    done(message) {
      const version = models.get(message.model)?.versions.find((candidate) => candidate.version === message.version);
      version?.queue?.done(message);
    },

    async refused(message) {
      const model = models.get(message.model);
      if (model === undefined) return;
      for (const worker of model.workers.keys()) {
        for (const { queue } of model.versions) queue?.describe(worker, []);
      }
      for (const { queue } of model.versions) queue?.undelivered(message.batch);
      // Another refusal of the same epoch has led to a higher one already.
      if (model.epoch.number > message.highest.number) return;
      const epoch = await directory.acquire(model.name, id, message.highest.number);
      if (epoch === undefined) {
        log.error({ model: model.name, owner: directory.owner(model.name)?.owner }, 'lease lost to another owner');
        closeQueues(model);
        models.delete(model.name);
        leases.delete(model.name);
        return;
      }
      model.epoch = epoch;
      leases.set(model.name, epoch);
      tellAll(model, 'load');
    },

    workersChanged() {
      const live = liveWorkers(directory);
      const registered = new Set(directory.processes('worker').map((process) => process.id));
      for (const model of models.values()) {
        for (const worker of [...model.workers.keys()]) if (!registered.has(worker)) workerGone(model, worker);
        if (model.phase !== 'loading' && model.phase !== 'serving') continue;
        for (const worker of live) if (!model.workers.has(worker)) tell(model, worker, 'load');
      }
    },

    async release() {
      // Loads and unloads on their way end now, since the coordinator is stopping.
      await turns.settled();
      const held = [...models.values()];
      for (const model of held) {
        closeQueues(model);
        if (model.workers.size > 0) tellAll(model, 'unload');
      }
      await conditions.wait(() => held.every(unloadSettled));
      models.clear();
      for (const name of [...leases.keys()]) await giveBack(name);
    },
  };
}

function liveWorkers(directory: Directory<ModelRecord>): ProcessId[] {
  return directory
    .processes('worker')
    .filter((process) => !process.draining)
    .map((process) => process.id);
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

function controlMessage(model: OwnedModel, action: 'load' | 'unload'): ControlMessage {
  const loading = action === 'load';
  return {
    kind: 'control',
    model: model.name,
    epoch: model.epoch,
    action,
    config: loading ? encodeModelConfig(model.source.config) : '',
    versions: loading ? model.source.versions : [],
    contentHash: loading ? model.source.contentHash : '',
  };
}

/** Why a model is not to be served as configured, asked of the config and of the scheduler. */
function unsupportedText(model: OwnedModel): string | undefined {
  const reason = unsupportedReason(model.source.config);
  if (reason !== undefined) return reason;
  try {
    createScheduler(model.source.config);
    return undefined;
  } catch (error) {
    return errorInfo(error).message;
  }
}

/** The record of a model whose config cannot be completed: its greatest version, with the reason. */
async function unreadRecord(name: string, error: ErrorInfo, reader: ModelReader): Promise<ModelRecord> {
  const present = error.field === 'version_policy' ? [] : await reader.versions(name);
  const version = present.at(-1);
  const reason = `${ERROR_TABLE[error.code].label}: ${error.message}`;
  return {
    name,
    config: decodeModelConfig(JSON.stringify({ name })),
    labels: {},
    versions: version === undefined ? [] : [{ version, state: 'UNAVAILABLE', reason }],
    contentHash: '',
  };
}

function unreadFailure(record: ModelRecord, error: ErrorInfo): string {
  const [version] = record.versions;
  const detail =
    version === undefined ? error.message : `version ${version.version} is at UNAVAILABLE state: ${version.reason};\n`;
  return `load failed for model '${record.name}': ${detail}`;
}
