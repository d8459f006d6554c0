import type { ModelRecord } from '@nereid/config';
import { encodeModelConfig } from '@nereid/config';
import type { ControlMessage, DescribedMessage, ProcessId } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import { type OwnedModel, stateAtWorkers } from './owned-model.ts';
import { versionNotReady } from './request-error.ts';

export interface ModelWorkersParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly conditions: Conditions;
  readonly models: ReadonlyMap<string, OwnedModel>;
  /** A serving model's versions changed state. */
  readonly changed: (model: OwnedModel) => void;
}

/** Tells workers what to hold, and keeps models and queues in line with what they hold. */
export interface ModelWorkers {
  /** `load` goes to every live worker, `unload` to those that were told of the model. */
  tellAll(model: OwnedModel, action: 'load' | 'unload'): void;
  /** Gives the model's queues the instances that its workers have described. */
  offerInstances(model: OwnedModel): void;
  /** Takes all instances away from the model's queues until workers describe them again. */
  withdrawInstances(model: OwnedModel): void;
  described(message: DescribedMessage): void;
  /** The directory's list of processes changed. */
  listChanged(): void;
}

export function createModelWorkers(parts: ModelWorkersParts): ModelWorkers {
  const { clock, log, mailbox, directory, conditions, models } = parts;
  let lastAskedUs = 0;

  /** Asks at once after telling, so that what the worker said before is told apart. */
  const tell = (model: OwnedModel, worker: ProcessId, action: 'load' | 'unload') => {
    lastAskedUs = Math.max(clock.nowUs(), lastAskedUs + 1);
    const askedAt = lastAskedUs;
    model.workers.set(worker, { askedAt, answered: false, versions: new Map() });
    const lost = () => {
      if (model.workers.get(worker)?.askedAt === askedAt) gone(model, worker);
    };
    mailbox.send(worker, controlMessage(model, action), lost);
    mailbox.send(worker, { kind: 'describe', model: model.name, epoch: model.epoch, askedAt }, lost);
  };

  const gone = (model: OwnedModel, worker: ProcessId) => {
    model.workers.delete(worker);
    for (const { queue } of model.versions) queue?.workerGone(worker);
    refresh(model);
    conditions.check();
  };

  const offer = (model: OwnedModel, worker: ProcessId) => {
    const view = model.workers.get(worker);
    for (const { version, queue } of model.versions) {
      const held = view?.versions.get(version);
      queue?.describe(worker, held?.state === 'READY' ? held.instances : []);
    }
  };

  /** What no worker holds any more is not ready, and what waits for it is refused rather than kept. */
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
    if (changed) parts.changed(model);
  };

  const live = () => directory.processes('worker').filter((process) => !process.draining);

  return {
    tellAll(model, action) {
      const told = action === 'load' ? live().map(({ id }) => id) : [...model.workers.keys()];
      for (const worker of told) tell(model, worker, action);
    },

    offerInstances(model) {
      for (const worker of model.workers.keys()) offer(model, worker);
    },

    withdrawInstances(model) {
      for (const worker of model.workers.keys()) for (const { queue } of model.versions) queue?.describe(worker, []);
    },

    described(message) {
      const model = models.get(message.model);
      const view = model?.workers.get(message.worker);
      if (model === undefined || view === undefined) return;
      if (!view.answered && message.askedAt !== view.askedAt) return;
      view.answered = true;
      // A draining worker ends what it has and is given nothing more.
      view.versions = new Map(message.draining ? [] : message.versions.map((version) => [version.version, version]));
      offer(model, message.worker);
      refresh(model);
      conditions.check();
    },

    listChanged() {
      const registered = new Set(directory.processes('worker').map(({ id }) => id));
      for (const model of models.values()) {
        for (const worker of [...model.workers.keys()]) if (!registered.has(worker)) gone(model, worker);
        if (model.phase !== 'loading' && model.phase !== 'serving') continue;
        for (const { id } of live()) if (!model.workers.has(id)) tell(model, id, 'load');
      }
    },
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
