/** Models that are held when somebody asks for them: who loads them, and what waits meanwhile (docs/placement.md). */
import {
  instancesByDevice,
  type ModelRecord,
  type ModelSource,
  type PlacementMode,
  type PlacementRule,
  placementRule,
  versionBytes,
} from '@nereid/config';
import {
  type ErrorInfo,
  isEvicted,
  isNoHolder,
  isNotHeld,
  NO_HOLDER,
  type ProcessId,
  STOPPING,
  UNLOADED,
  type VersionState,
} from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { type ConsideredWorker, choosePlacement, desiredWorkers } from '@nereid/scheduler';
import type { Directory } from '@nereid/transport';
import { allVersions, hasQueues, heldOf, isEnsemble, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import { holdsNow, placementWorkers } from './placement-workers.ts';
import { createUnheldWaits } from './unheld-waits.ts';

export interface OnDemandParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: Directory<ModelRecord>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly reader: Pick<ModelReader, 'directory'>;
  readonly mode: PlacementMode;
  /** How long a request waits for a worker to hold its model, where the config does not say. */
  readonly wait_ms: number;
  /** Has the worker hold the model. */
  readonly place: (model: OwnedModel, worker: ProcessId) => void;
  /** Has it hold the model no more. */
  readonly letGo: (model: OwnedModel, worker: ProcessId) => void;
  /** Asks what it holds of the model, and tells it nothing. */
  readonly ask: (model: OwnedModel, worker: ProcessId) => void;
  /** What is published of the model has changed. */
  readonly changed: (model: OwnedModel) => void;
  /** The states of the model's versions may have changed. */
  readonly refresh: (model: OwnedModel) => void;
}

/** One decision about a model, as it is logged. */
export interface PlacementNote {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly text: string;
}

/** What is told of a model's placement. */
export interface PlacementReport {
  readonly mode: PlacementMode;
  readonly pinned: boolean;
  /** Of the files, for each instance; undefined where they have not been looked at. */
  readonly bytes: number | undefined;
  readonly waiting: number;
  /** How many workers its work wants. */
  readonly wanted: number;
  /** Why it cannot be loaded now, '' for nothing. */
  readonly cannot: string;
  readonly holders: readonly { readonly worker: ProcessId; readonly state: 'ready' | 'loading' }[];
  readonly considered: readonly ConsideredWorker[];
  readonly decisions: readonly PlacementNote[];
}

export interface OnDemand {
  /** Whether workers hold the model only as they are chosen to. */
  isOn(model: OwnedModel): boolean;
  isPinned(model: OwnedModel): boolean;
  /** A version's state where no worker has it ready: READY where it can be asked for all the same. */
  stateUnheld(model: OwnedModel, held: VersionStanding): VersionStanding;
  /** What its requests are told where it cannot be asked for. */
  refusal(model: OwnedModel, version: OwnedVersion): ErrorInfo | undefined;
  /** A request came, or something about its workers changed. */
  look(model: OwnedModel): void;
  /** A worker said what it holds. */
  described(model: OwnedModel, worker: ProcessId): void;
  report(model: OwnedModel): PlacementReport;
  /** How many workers the waiting and running work of a model wants. */
  desired(model: OwnedModel): number;
  pin(model: OwnedModel, pinned: boolean): void;
  /** Has it loaded though nobody asks for it. */
  prefetch(model: OwnedModel): void;
  /** Nothing of it runs, and what waits waits for a worker to hold it: another owner may as well have it. */
  isUnheld(model: OwnedModel): boolean;
  /** Ends what waits for a worker to hold the model, since nobody goes on with it. */
  refuseWaiting(model: OwnedModel): void;
  /** The model is not owned any more. */
  forget(name: string): void;
  close(): void;
}

export interface VersionStanding {
  readonly state: VersionState;
  readonly reason: string;
}

interface Placed {
  /** Asked for without a request, until it is loaded. */
  wanted: boolean;
  bytes: number | undefined;
  reading: boolean;
  /** What workers lack that were asked in vain, until the next try. */
  readonly failed: Map<ProcessId, string>;
  cannot: string;
  /** Whether another worker is to hold it too is looked at from then on. */
  spreadUs: number;
  retry: Timer | undefined;
  readonly notes: PlacementNote[];
}

const NOTES_MAX = 16;
/** How often it is looked at whether one more worker is to hold a model, and for how many rounds of work. */
const SPREAD_US = 1_000_000;
const SPREAD_ROUNDS = 4;
/** A worker that could not load a model is asked again after this. */
const RETRY_US = 10_000_000;

export function createOnDemand(parts: OnDemandParts): OnDemand {
  const { clock, log, directory, models, mode } = parts;
  const placed = new Map<string, Placed>();

  const isOn = (model: OwnedModel) => mode === 'on-demand' && !isEnsemble(model);
  const rules = new WeakMap<ModelSource, PlacementRule>();
  const ruleOf = ({ source }: OwnedModel) => {
    const known = rules.get(source) ?? placementRule(source.config);
    rules.set(source, known);
    return known;
  };
  /** Requests wait for it while nobody holds it. */
  const canWait = (model: OwnedModel) => isOn(model) || (!isEnsemble(model) && ruleOf(model).scaleToZero);

  const stateOf = ({ name }: OwnedModel): Placed => {
    const known = placed.get(name);
    if (known !== undefined) return known;
    const begun: Placed = {
      ...{ wanted: false, bytes: undefined, reading: false, failed: new Map(), cannot: '' },
      ...{ spreadUs: 0, retry: undefined, notes: [] },
    };
    placed.set(name, begun);
    return begun;
  };

  const isPinned = (model: OwnedModel) => model.pinned ?? ruleOf(model).pin;

  const note = (model: OwnedModel, text: string, more: object = {}) => {
    log.info({ model: model.name, ...more }, text);
    const { notes } = stateOf(model);
    notes.push({ atMs: clock.wallMs(), text });
    if (notes.length > NOTES_MAX) notes.shift();
  };

  const holders = (model: OwnedModel) =>
    [...model.workers].flatMap(([worker, view]) => {
      const state = holdsNow(model, view);
      return state === 'no' ? [] : [{ worker, state }];
    });

  const waitingOf = (model: OwnedModel) =>
    allVersions(model).reduce((sum, { queue }) => sum + (queue?.waiting ?? 0) + (queue?.background ?? 0), 0);

  const desired = (model: OwnedModel) => {
    const { config } = model.source;
    const running = allVersions(model).reduce((sum, { queue }) => sum + (queue?.running ?? 0), 0);
    const instances = [...instancesByDevice(config).values()].reduce((sum, count) => sum + count, 0);
    const { scaleToZero } = ruleOf(model);
    return desiredWorkers({ waiting: waitingOf(model), running, instances, batch: config.maxBatchSize, scaleToZero });
  };

  const candidates = (model: OwnedModel) => {
    const { bytes, failed } = stateOf(model);
    return placementWorkers(model, directory.processes('worker'), bytes ?? 0, failed);
  };

  const isReady = (model: OwnedModel) => holders(model).some(({ state }) => state === 'ready');

  const isUnheld = (model: OwnedModel) =>
    canWait(model) && !isReady(model) && allVersions(model).every(({ queue }) => (queue?.running ?? 0) === 0);

  const waitUs = (model: OwnedModel) => (ruleOf(model).maxWaitMs ?? parts.wait_ms) * 1000;

  const whyUnheld = (model: OwnedModel) => {
    const { cannot } = stateOf(model);
    if (cannot !== '') return cannot;
    const [loading] = holders(model);
    if (loading !== undefined) return `${loading.worker} is still loading it, or waits for room to`;
    const [first] = candidates(model);
    return first === undefined ? 'no worker lives' : 'no worker takes it now';
  };

  const waits = createUnheldWaits({
    clock,
    waitUs,
    waits: (name) => {
      const model = models.get(name);
      return model === undefined || !canWait(model) || isReady(model) ? undefined : model;
    },
    why: whyUnheld,
    expired(model) {
      // Nobody is to make room for what nobody wants any more.
      if (waitingOf(model) > 0 || !isOn(model) || isPinned(model)) return;
      for (const { worker, state } of holders(model)) if (state === 'loading') parts.letGo(model, worker);
    },
  });

  const tryAgainLater = (model: OwnedModel) => {
    const state = stateOf(model);
    state.retry ??= clock.at(clock.nowUs() + RETRY_US, () => {
      state.retry = undefined;
      state.cannot = '';
      state.failed.clear();
      const owned = models.get(model.name);
      if (owned === undefined || !hasQueues(owned)) return;
      parts.refresh(owned);
      look(owned);
    });
  };

  /** Its size is read once; the worker knows better, and has the last word. */
  const readBytes = (model: OwnedModel) => {
    const state = stateOf(model);
    if (state.reading) return;
    state.reading = true;
    const { name, source } = model;
    parts.reader
      .directory(name)
      .then(async (directory) => Promise.all(source.versions.map((version) => versionBytes(directory, version))))
      .then((sizes) => sizes.reduce((sum, bytes) => sum + bytes, 0))
      .catch(() => 0)
      .then((bytes) => {
        state.reading = false;
        state.bytes = bytes;
        const owned = models.get(name);
        if (owned !== undefined) look(owned);
      });
  };

  const choose = (model: OwnedModel) => {
    const { chosen, considered } = choosePlacement(candidates(model));
    const [best] = considered;
    // One on which it can never fit says so itself, with its own figures.
    const asked = chosen ?? (best?.standing === 'never' ? best.worker : undefined);
    if (asked === undefined) return;
    note(model, `${asked} is to load the model: ${best?.why}`, { worker: asked });
    parts.place(model, asked);
  };

  /** It did not load the model: others are asked, until it is tried again. */
  const failedAt = (model: OwnedModel, worker: ProcessId, reason: string) => {
    const state = stateOf(model);
    state.failed.set(worker, isNotHeld(reason) ? 'it does not take the model' : reason);
    note(model, `${worker} does not load the model: ${reason}`, { worker });
    tryAgainLater(model);
    if (candidates(model).every(({ lacks }) => lacks !== '')) {
      state.cannot = [...state.failed.values()].at(-1) ?? '';
      note(model, `no worker can load the model: ${state.cannot}`);
    }
    parts.letGo(model, worker);
  };

  /** One worker holds a model, and another as well while more waits than the first does at a time, where one has room. */
  const spread = (model: OwnedModel, held: number) => {
    const state = stateOf(model);
    const nowUs = clock.nowUs();
    if (nowUs < state.spreadUs) return;
    state.spreadUs = nowUs + SPREAD_US;
    if (desired(model) <= held * SPREAD_ROUNDS) return;
    const others = candidates(model).filter(
      ({ id, holds }) => holds === 'no' && model.workers.get(id)?.told !== 'load',
    );
    const { chosen, considered } = choosePlacement(others);
    if (chosen === undefined || considered[0]?.standing !== 'room') return;
    note(
      model,
      `${chosen} is to load the model too, for the ${waitingOf(model)} requests that wait: ${considered[0].why}`,
    );
    parts.place(model, chosen);
  };

  function look(model: OwnedModel): void {
    if (models.get(model.name) !== model || !canWait(model) || !hasQueues(model)) return;
    waits.watch(model);
    if (!isOn(model)) return;
    const state = stateOf(model);
    const isWanted = state.wanted || isPinned(model) || waitingOf(model) > 0;
    if (!isWanted) return;
    const held = holders(model);
    if (held.length > 0) {
      spread(model, held.length);
      return;
    }
    // Whoever has it already is to be found first.
    if ([...model.workers.values()].some(({ answered, draining }) => !answered && !draining)) return;
    if (state.bytes === undefined) readBytes(model);
    else choose(model);
  }

  /** What a worker that was told to hold the model says in place of holding it; '' while it does, or is about to. */
  const failureAt = (model: OwnedModel, worker: ProcessId): string => {
    const view = model.workers.get(worker);
    if (view === undefined || view.told !== 'load' || !view.answered || view.missed) return '';
    for (const version of model.versions) {
      const held = heldOf(view.held, version);
      if (held?.state === 'UNAVAILABLE' && held.reason !== UNLOADED) return held.reason;
    }
    return '';
  };

  return {
    desired,
    isOn,
    isPinned,
    look,
    stateUnheld(model, held) {
      // Of a load beside the one that serves that failed, say.
      if (!isNoHolder(held.reason)) return held;
      if (isOn(model)) {
        const { cannot } = stateOf(model);
        if (cannot !== '') return { state: 'UNAVAILABLE', reason: cannot };
        const all = candidates(model);
        if (ruleOf(model).scaleToZero || all.some(({ lacks }) => lacks === '')) return { state: 'READY', reason: '' };
        const lacks = all.find(({ lacks }) => lacks !== '')?.lacks;
        return { state: 'UNAVAILABLE', reason: lacks === undefined ? NO_HOLDER : `${NO_HOLDER}: ${lacks}` };
      }
      return canWait(model) ? { state: 'READY', reason: '' } : held;
    },
    refusal(model, { version }) {
      if (!isOn(model)) return undefined;
      const { cannot } = stateOf(model);
      if (cannot === '') return undefined;
      const message = `model '${model.name}' version ${version} cannot be loaded: ${cannot}`;
      return { code: 'UNAVAILABLE', message };
    },
    described(model, worker) {
      if (!isOn(model)) return;
      const state = stateOf(model);
      const reason = failureAt(model, worker);
      if (isEvicted(reason)) {
        note(model, `${worker} holds the model no more: ${reason}`, { worker });
        parts.ask(model, worker);
      } else if (reason !== '') {
        failedAt(model, worker, reason);
      } else if (holdsNow(model, model.workers.get(worker)) === 'ready') state.wanted = false;
      look(model);
    },
    report(model) {
      const { bytes, cannot, notes } = stateOf(model);
      return {
        mode,
        pinned: isPinned(model),
        bytes,
        waiting: waitingOf(model),
        wanted: desired(model),
        cannot,
        holders: holders(model),
        considered: choosePlacement(candidates(model)).considered,
        decisions: [...notes],
      };
    },
    pin(model, pinned) {
      if (isPinned(model) === pinned) return;
      model.pinned = pinned;
      parts.changed(model);
      note(model, pinned ? 'the model is pinned: it does not go for others' : 'the model is no longer pinned');
      for (const { worker } of holders(model)) parts.place(model, worker);
      look(model);
    },
    isUnheld,
    refuseWaiting(model) {
      if (canWait(model) && !isReady(model)) for (const { queue } of allVersions(model)) queue?.failQueued(STOPPING);
    },
    prefetch(model) {
      if (holders(model).length > 0) return;
      stateOf(model).wanted = true;
      look(model);
    },
    forget(name) {
      const state = placed.get(name);
      state?.retry?.cancel();
      waits.forget(name);
      placed.delete(name);
    },
    close() {
      for (const { retry } of placed.values()) retry?.cancel();
      waits.close();
      placed.clear();
    },
  };
}
