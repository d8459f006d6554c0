import { isDeepStrictEqual } from 'node:util';
import type { ModelRecord } from '@nereid/config';
import { encodeModelConfig } from '@nereid/config';
import {
  type ControlMessage,
  type DescribedMessage,
  heldKey,
  isNotHeld,
  ofLoad,
  type ProcessId,
  UNLOADED,
  versionNotReady,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory, Mailbox, Timing } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import type { OnDemand, VersionStanding } from './on-demand.ts';
import {
  allVersions,
  goesOnDraining,
  heldOf,
  isEnsemble,
  loadSettled,
  type OwnedModel,
  type OwnedVersion,
  type Question,
  stateAtWorkers,
  type WorkerView,
} from './owned-model.ts';
import { answered, asked, hasMissed, heldNow, type ProbeTimes, shouldAsk } from './worker-questions.ts';

export interface ModelWorkersParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly conditions: Conditions;
  readonly models: ReadonlyMap<string, OwnedModel>;
  /** A serving model's versions changed state. */
  readonly changed: (model: OwnedModel) => void;
  readonly onDemand: Pick<OnDemand, 'isOn' | 'isPinned' | 'stateUnheld' | 'refusal' | 'look' | 'described'>;
  /** A worker came that may hold a model that no worker held. */
  readonly holderCame: (model: OwnedModel) => void;
}

/** Tells workers what to hold, and keeps models and queues in line with what they hold. Of ensembles they hold nothing. */
export interface ModelWorkers {
  /**
   * `load` goes to every live worker, of a model on demand to those that hold it, while the others are asked; `unload` to
   * those that were told of the model.
   */
  tellAll(model: OwnedModel, action: 'load' | 'unload'): void;
  tell(model: OwnedModel, worker: ProcessId, action: Told): void;
  /** A version's state as its workers have it. */
  standing(model: OwnedModel, version: OwnedVersion): VersionStanding;
  /** The states of the model's versions may have changed. */
  refresh(model: OwnedModel): void;
  /** Gives the model's queues the instances that its workers have described. */
  offerInstances(model: OwnedModel): void;
  /** Takes all instances away from the model's queues until workers describe them again. */
  withdrawInstances(model: OwnedModel): void;
  described(message: DescribedMessage): void;
  /** The directory's list of processes changed. */
  listChanged(): void;
  /** The model was taken over and its workers have had time to answer: it is what they say from now on. */
  settle(model: OwnedModel): void;
  /** Asks after what is out for long, and tells again what was not heard (docs/protocol.md R28). */
  probe(times: Pick<Timing, keyof ProbeTimes>): void;
}

type Told = WorkerView['told'];

const NOTHING_RUNS: ReadonlySet<string> = new Set();

export function createModelWorkers(parts: ModelWorkersParts): ModelWorkers {
  const { clock, log, mailbox, directory, conditions, models, onDemand } = parts;
  let lastAskedAt = 0;

  const nextQuestion = (model: OwnedModel) => {
    const askedUs = clock.nowUs();
    lastAskedAt = Math.max(askedUs, lastAskedAt + 1);
    return { askedAt: lastAskedAt, askedUs, sentUpTo: model.batches };
  };

  /** Asks at once after telling, so that what the worker said before is told apart. */
  const tell = (model: OwnedModel, worker: ProcessId, action: Told) => {
    const question = nextQuestion(model);
    const view = newView(model, model.workers.get(worker), action, question);
    model.workers.set(worker, view);
    const lost = lostBy(model, worker, view);
    if (action === 'unload') mailbox.send(worker, unloadMessage(model), lost);
    for (const load of view.toldLoads) mailbox.send(worker, loadMessage(model, load, view, onDemand), lost);
    send(model, worker, view, question, lost);
  };

  /** It is told nothing any more, but may have sequences that go on. */
  const askDraining = (model: OwnedModel, worker: ProcessId) => {
    const question = nextQuestion(model);
    const view = { ...newView(model, model.workers.get(worker), 'load', question), draining: true };
    model.workers.set(worker, view);
    send(model, worker, view, question, lostBy(model, worker, view));
  };

  const lostBy = (model: OwnedModel, worker: ProcessId, view: WorkerView) => () => {
    if (model.workers.get(worker) === view) gone(model, worker);
  };

  const send = (
    model: OwnedModel,
    worker: ProcessId,
    view: WorkerView,
    question: ReturnType<typeof nextQuestion>,
    lost?: () => void,
  ) => {
    asked(view, question);
    mailbox.send(worker, { kind: 'describe', model: model.name, epoch: model.epoch, askedAt: question.askedAt }, lost);
  };

  const gone = (model: OwnedModel, worker: ProcessId) => {
    model.workers.delete(worker);
    for (const { queue } of allVersions(model)) queue?.workerGone(worker);
    refresh(model);
    conditions.check();
  };

  const offer = (model: OwnedModel, worker: ProcessId, sentUpTo: number | undefined) => {
    const view = model.workers.get(worker);
    for (const version of allVersions(model)) {
      const held = view === undefined ? undefined : heldOf(view.held, version);
      // One that drains is of use only for the sequences that it has.
      const isUsed = held?.state === 'READY' && (view?.draining !== true || version.signature.sequence !== undefined);
      version.queue?.describe(worker, {
        instances: isUsed ? held.instances : [],
        running: view?.running ?? NOTHING_RUNS,
        sentUpTo,
        draining: view?.draining === true,
        slots: held?.slots ?? [],
        ended: held?.ended ?? [],
      });
    }
  };

  /** Of a model on demand, what holds it goes on doing so. */
  const actionFor = (model: OwnedModel, worker: ProcessId): Told =>
    onDemand.isOn(model) && model.workers.get(worker)?.told !== 'load' ? 'ask' : 'load';

  const standing = (model: OwnedModel, version: OwnedVersion): VersionStanding => {
    const held = stateAtWorkers(model, version);
    return held.state === 'READY' ? held : onDemand.stateUnheld(model, held);
  };

  /** What no worker holds any more is not ready, and what waits for it is refused rather than kept. */
  const refresh = (model: OwnedModel) => {
    if (model.settling && !loadSettled(model)) return;
    model.settling = false;
    let changed = false;
    for (const version of model.versions) {
      if (version.queue === undefined) continue;
      const { state, reason } = standing(model, version);
      if (state !== 'READY') {
        version.queue.failQueued(onDemand.refusal(model, version) ?? versionNotReady(model.name, version.version));
      }
      const goesOn = state !== 'READY' && goesOnDraining(model, version);
      const same = state === version.state && reason === version.reason && goesOn === version.goesOn;
      if (model.phase !== 'serving' || same) continue;
      log.warn({ model: model.name, version: version.version, state, reason }, 'model version changed state');
      version.state = state;
      version.reason = reason;
      version.goesOn = goesOn;
      changed = true;
    }
    refreshRetiring(model);
    if (changed) parts.changed(model);
  };

  /** What waits for a load that no worker has any more goes to the one that serves. */
  const refreshRetiring = (model: OwnedModel) => {
    if (model.settling) return;
    for (const version of model.retiring) {
      if (stateAtWorkers(model, version).state === 'READY') continue;
      const now = model.versions.find(({ state, queue }) => state === 'READY' && queue !== undefined);
      if (now?.queue !== undefined && isDeepStrictEqual(now.signature, version.signature)) {
        for (const request of version.queue?.draw() ?? []) now.queue.arrive(request);
      }
      version.queue?.failQueued(versionNotReady(model.name, version.version));
    }
  };

  /** The model may be ready all the same, on other workers: nothing else tells of this one. */
  const warnOfFailed = ({ model, worker, versions }: DescribedMessage, before: WorkerView['versions']) => {
    for (const { version, load, state, reason } of versions) {
      if (state !== 'UNAVAILABLE' || isNotHeld(reason) || reason === UNLOADED) continue;
      if (before.get(heldKey(version, load))?.reason !== reason)
        log.warn({ model, version, worker, reason }, 'a worker does not hold a version');
    }
  };

  const registered = () => directory.processes('worker');
  const live = () => registered().filter((process) => !process.draining);

  /** It ends what it has and is given nothing more (docs/protocol.md R38). */
  const drain = (model: OwnedModel, worker: ProcessId, view: WorkerView) => {
    if (view.draining) return;
    view.draining = true;
    view.versions = new Map();
    for (const { queue } of allVersions(model)) queue?.drainWorker(worker);
    refresh(model);
    conditions.check();
  };

  return {
    tell,
    standing,
    refresh,
    tellAll(model, action) {
      if (isEnsemble(model)) return;
      const told = action === 'load' ? live().map(({ id }) => id) : [...model.workers.keys()];
      for (const worker of told) tell(model, worker, action === 'load' ? actionFor(model, worker) : action);
      if (action === 'load' && allVersions(model).some(({ signature }) => signature.sequence !== undefined)) {
        for (const { id, draining } of registered()) if (draining) askDraining(model, id);
      }
    },

    offerInstances(model) {
      for (const worker of model.workers.keys()) offer(model, worker, undefined);
    },

    withdrawInstances(model) {
      for (const worker of model.workers.keys()) {
        for (const { queue } of allVersions(model)) queue?.withdraw(worker);
      }
    },

    described(message) {
      const model = models.get(message.model);
      const view = model?.workers.get(message.worker);
      if (model === undefined || view === undefined) return;
      if (!view.answered && message.askedAt < view.askedAt) return;
      const question = answered(view, message.askedAt);
      // Also one that said this before it began to drain.
      const draining = message.draining || registered().some(({ id, draining }) => id === message.worker && draining);
      view.answered = true;
      view.draining = draining;
      if (question !== undefined) view.missed = !draining && hasMissed(view, message.versions);
      const before = view.versions;
      view.held = heldNow(model, message);
      view.versions = draining ? new Map() : view.held;
      if (view.told === 'load') warnOfFailed(message, before);
      view.running = new Set(message.versions.flatMap(({ running }) => running));
      view.streams = message.streams.length > 0;
      offer(model, message.worker, question?.sentUpTo);
      if (view.told === 'ask' && holdsSome(view))
        tell(model, message.worker, holdsPresent(model, view) ? 'load' : 'unload');
      onDemand.described(model, message.worker);
      refresh(model);
      conditions.check();
    },

    listChanged() {
      const workers = registered();
      const ids = new Set(workers.map(({ id }) => id));
      for (const model of [...models.values()]) {
        if (isEnsemble(model)) continue;
        for (const worker of [...model.workers.keys()]) if (!ids.has(worker)) gone(model, worker);
        let came = false;
        for (const { id, draining } of workers) {
          const view = model.workers.get(id);
          if (draining && view !== undefined) drain(model, id, view);
          if (draining || view !== undefined) continue;
          came = true;
          if (model.phase === 'loading' || model.phase === 'serving') tell(model, id, actionFor(model, id));
        }
        onDemand.look(model);
        if (came && model.phase === 'failed' && model.unheld) parts.holderCame(model);
      }
    },

    settle(model) {
      if (!model.settling) return;
      model.settling = false;
      refresh(model);
      conditions.check();
    },

    probe(times) {
      const nowUs = clock.nowUs();
      for (const model of models.values()) {
        for (const [worker, view] of model.workers) {
          if (view.missed) {
            log.info({ model: model.name, worker, told: view.told }, 'telling a worker again');
            tell(model, worker, view.told);
            continue;
          }
          const since = allVersions(model).map(({ queue }) => queue?.outSinceUs(worker));
          if (shouldAsk(model, view, since, nowUs, times)) send(model, worker, view, nextQuestion(model));
        }
      }
    },
  };
}

function newView(model: OwnedModel, before: WorkerView | undefined, told: Told, question: Question): WorkerView {
  return {
    told,
    toldLoads: told === 'load' ? [model, ...(model.next === undefined ? [] : [model.next])] : [],
    kept: told === 'load' ? model.retiring.map(({ load }) => load) : [],
    askedAt: question.askedAt,
    answered: false,
    missed: false,
    draining: before?.draining ?? false,
    // It holds what it held until it says otherwise.
    versions: before?.versions ?? new Map(),
    held: before?.held ?? new Map(),
    running: before?.running ?? NOTHING_RUNS,
    streams: before?.streams ?? false,
    questions: before?.questions ?? [],
    askedUs: question.askedUs,
  };
}

function holdsSome({ held }: WorkerView): boolean {
  return [...held.values()].some(({ state }) => state === 'READY' || state === 'LOADING');
}

function holdsPresent(model: OwnedModel, { held }: WorkerView): boolean {
  return allVersions(model).some((version) => {
    const state = heldOf(held, version)?.state;
    return state === 'READY' || state === 'LOADING';
  });
}

function unloadMessage({ name, epoch }: OwnedModel): ControlMessage {
  return { kind: 'control', model: name, epoch, action: 'unload', config: '', versions: [], contentHash: '' };
}

/** One load that the worker is to hold, beside all others that the model has. */
function loadMessage(
  model: OwnedModel,
  { load, source }: OwnedModel,
  view: WorkerView,
  onDemand: ModelWorkersParts['onDemand'],
): ControlMessage {
  const { name, epoch } = model;
  const keep = [...new Set([...view.toldLoads.map((told) => told.load), ...view.kept])].filter((kept) => kept !== load);
  return {
    kind: 'control',
    model: name,
    epoch,
    action: 'load',
    config: encodeModelConfig(source.config),
    versions: source.versions,
    contentHash: source.contentHash,
    ...(source.override === undefined ? {} : { override: source.override }),
    ...ofLoad(load),
    ...(keep.length === 0 ? {} : { keep }),
    ...(onDemand.isOn(model) ? { onDemand: true } : {}),
    ...(onDemand.isPinned(model) ? { pinned: true } : {}),
  };
}
