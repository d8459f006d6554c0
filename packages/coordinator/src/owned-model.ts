import {
  compareVersions,
  instanceGpu,
  type ModelConfig,
  type ModelRecord,
  type ModelSignature,
  type ModelSource,
  modelSignature,
  type RetiringLoad,
  type VersionRecord,
} from '@nereid/config';
import {
  type Epoch,
  heldKey,
  isNotHeld,
  NO_HOLDER,
  NOT_HELD,
  type ProcessId,
  UNLOADED,
  type VersionDescription,
  type VersionState,
} from '@nereid/protocol';
import type { LoadedStrategy } from './batching-strategy.ts';
import type { ModelStatistics } from './model-statistics.ts';
import type { VersionQueue } from './version-queue.ts';

/**
 * Where a model is on its way. `loadModel` takes it to *loading*, from which it goes to *serving*
 * once its workers hold it, or to *failed*. `unloadModel` takes it to *unloading*, while what was
 * accepted runs to its end, then to *unloaded*. Only while it is serving are requests taken and
 * batches sent. One that serves is loaded anew beside that (`next`), which is then adopted at once: it goes on
 * serving, and versions of the load before are *retiring* until what they accepted has ended.
 */
export type ModelPhase = 'loading' | 'serving' | 'failed' | 'unloading' | 'unloaded';

/** A version of one load. */
export interface OwnedVersion {
  readonly version: string;
  /** Number of the load. */
  readonly load: number;
  /** As its load has it. */
  config: ModelConfig;
  signature: ModelSignature;
  state: VersionState;
  reason: string;
  /**
   * It is READY for the sequences that live and for nothing else: the workers that hold it are draining. It is
   * published as READY, so that gateways send steps.
   */
  goesOn: boolean;
  /** Before it has a queue and as long, where it has one. */
  strategy: LoadedStrategy | undefined;
  /** From serving to unloaded. */
  queue: VersionQueue | undefined;
  /** As long as it has a queue: what was counted since it was loaded. */
  statistics: ModelStatistics | undefined;
  /** Takes the version's metrics away. */
  hideMetrics: (() => void) | undefined;
}

/** A `describe` sent to a worker. */
export interface Question {
  readonly askedAt: number;
  readonly askedUs: number;
  /** The last batch sent by then. */
  readonly sentUpTo: number;
}

/** What a worker said of the model since it was last told what to hold. */
export interface WorkerView {
  /** `ask`: it was told nothing, and asked what it holds. */
  readonly told: 'load' | 'unload' | 'ask';
  /** The loads that it was told to hold; of others it was told to keep what it has. */
  readonly toldLoads: readonly OwnedModel[];
  readonly kept: readonly number[];
  /** The `describe` that followed; what the worker said before it answers is out of date. */
  readonly askedAt: number;
  answered: boolean;
  /** It answered as one that has not heard what it was told: that message was lost. */
  missed: boolean;
  /** It ends what it has and gets nothing more. */
  draining: boolean;
  /** By protocol's `heldKey`: of all loads. */
  versions: ReadonlyMap<string, VersionDescription>;
  /** As `versions`, also while it drains: it goes on with the sequences that it has. */
  held: ReadonlyMap<string, VersionDescription>;
  /** Ids of the model's requests that it runs, whoever sent them. */
  running: ReadonlySet<string>;
  /** Some of them are streams, whose gateways wait for a sign of them. */
  streams: boolean;
  /** Not answered yet, oldest first. */
  questions: readonly Question[];
  /** When it was last asked. */
  askedUs: number;
}

export interface OwnedModel {
  readonly name: string;
  epoch: Epoch;
  /** Number of the load that serves, or was the last to. */
  load: number;
  /** The highest number that a load of it has had. */
  lastLoad: number;
  /** Of an ensemble, completed by what its models are. */
  source: ModelSource;
  signature: ModelSignature;
  /** Of the files as workers may have loaded them: more than one where only the number of instances has changed since. */
  hashes: ReadonlySet<string>;
  phase: ModelPhase;
  /** Those that the load selected, ascending by number. */
  versions: readonly OwnedVersion[];
  /** Of earlier loads, the newest last: they get nothing new but steps of the sequences that they have. */
  retiring: readonly OwnedVersion[];
  /** Until then requests may come that their callers have checked against an earlier load. */
  checksUntilUs: number;
  /** A load beside the one that serves; it has the same `workers`. */
  next: OwnedModel | undefined;
  /** Versions of earlier loads that are no longer selected. */
  formerVersions: readonly string[];
  /**
   * Taken over from an earlier owner, and not every worker has said yet what it holds: until then the
   * model is what its record says.
   */
  settling: boolean;
  /** At its load no worker took it: loaded again when one comes. Of an ensemble: no worker has one of its models. */
  unheld: boolean;
  /** An ensemble that is wanted and not served, for what its models are: it is served once they are right. */
  awaitsModels: boolean;
  /** Whether it stays where it is loaded, as somebody has said; absent: as its config says. */
  pinned?: boolean | undefined;
  /** Processes that were told to hold the model. */
  readonly workers: Map<ProcessId, WorkerView>;
  /** Number of the last batch sent. */
  batches: number;
  /** While its jobs are taken: ends that. */
  dropJobs?: (() => void) | undefined;
}

/** The versions of its load and those that retire. */
export function allVersions({ versions, retiring }: OwnedModel): readonly OwnedVersion[] {
  return retiring.length === 0 ? versions : [...retiring, ...versions];
}

/** What a worker holds of a version. */
export function heldOf(
  versions: WorkerView['versions'],
  { version, load }: Pick<OwnedVersion, 'version' | 'load'>,
): VersionDescription | undefined {
  return versions.get(heldKey(version, load));
}

/** It runs at its owner: no worker is told of it. */
export function isEnsemble({ signature }: OwnedModel): boolean {
  return signature.ensemble !== undefined;
}

export function modelRecord(model: OwnedModel): ModelRecord {
  const { source } = model;
  const former = model.formerVersions.map((version) => formerRecord(model, version));
  const gpus = usedGpus(model);
  const selected = model.versions.map(({ version, state, reason, goesOn }) =>
    goesOn ? { version, state: 'READY' as const, reason: '' } : { version, state, reason },
  );
  return {
    name: model.name,
    config: source.config,
    labels: source.labels,
    versions: [...former, ...selected].sort((a, b) => compareVersions(a.version, b.version)),
    contentHash: source.contentHash,
    ...(model.load === 0 ? {} : { load: model.load }),
    ...(model.retiring.length === 0 || isEnsemble(model) ? {} : { retiring: retiringLoads(model) }),
    ...(model.awaitsModels ? { awaitsModels: true } : {}),
    ...(model.pinned === undefined ? {} : { pinned: model.pinned }),
    ...(gpus === 0 ? {} : { gpus }),
    ...(source.filesHash === undefined ? {} : { filesHash: source.filesHash }),
    ...(source.strategies === undefined ? {} : { strategies: source.strategies }),
    ...(source.override === undefined ? {} : { override: source.override }),
  };
}

/** One whose sequences go on is published as READY, so that gateways send their steps. */
function formerRecord({ retiring }: OwnedModel, version: string): VersionRecord {
  const ending = retiring.find((held) => held.version === version);
  if (ending === undefined) return { version, state: 'UNAVAILABLE', reason: UNLOADED };
  return { version, state: ending.signature.sequence === undefined ? 'UNLOADING' : 'READY', reason: '' };
}

function retiringLoads({ retiring }: OwnedModel): readonly RetiringLoad[] {
  return retiring.map(({ load, version, config }) => ({ load, version, config }));
}

/** One more than the highest GPU that any worker has an instance on. */
function usedGpus({ workers }: OwnedModel): number {
  const held = [...workers.values()].flatMap(({ versions }) => [...versions.values()]);
  const ids = held.flatMap(({ instances }) => instances.map(({ name }) => instanceGpu(name) ?? -1));
  return Math.max(-1, ...ids) + 1;
}

/** True once every version is READY on at least one worker, whatever the others make of it. */
export function loadedSomewhere(model: OwnedModel): boolean {
  const views = [...model.workers.values()].filter(({ answered, missed }) => answered && !missed);
  return model.versions.every((version) => views.some(({ versions }) => heldOf(versions, version)?.state === 'READY'));
}

/**
 * True once each worker has, for each version, either loaded it or failed to, and one of them takes
 * the model at all.
 */
export function loadSettled(model: OwnedModel): boolean {
  let holders = 0;
  for (const view of model.workers.values()) {
    if (view.draining) continue;
    if (!view.answered || view.missed) return false;
    for (const version of model.versions) {
      const held = heldOf(view.versions, version);
      if (held === undefined && view.told === 'ask') {
        holders++;
        continue;
      }
      if (held?.state !== 'READY' && held?.state !== 'UNAVAILABLE') return false;
      if (!isNotHeld(held.reason)) holders++;
    }
  }
  return holders > 0;
}

/** True where each worker has said that it does not take the model, or there is none. */
export function isUnheld(model: OwnedModel): boolean {
  for (const view of model.workers.values()) {
    if (view.draining) continue;
    if (!view.answered || view.missed) return false;
    for (const version of model.versions) {
      const held = heldOf(view.versions, version);
      if (held !== undefined && !isNotHeld(held.reason)) return false;
    }
  }
  return true;
}

/** True once no worker holds any version. */
export function unloadSettled(model: OwnedModel): boolean {
  for (const view of model.workers.values()) {
    if (view.draining) continue;
    if (!view.answered || view.missed) return false;
    for (const held of view.versions.values()) if (held.state !== 'UNAVAILABLE') return false;
  }
  return true;
}

/**
 * A version's state by what its workers say: READY where any holds it, with how many do where not all that take the
 * model do. Else why not: the first reason given by one that takes the model, or what one that does not lacks for it.
 */
export function stateAtWorkers(
  model: OwnedModel,
  version: Pick<OwnedVersion, 'version' | 'load'>,
): { state: VersionState; reason: string } {
  let reason = '';
  let lacks = '';
  let ready = 0;
  let others = 0;
  for (const view of model.workers.values()) {
    const held = heldOf(view.versions, version);
    if (held === undefined || (held.state !== 'READY' && view.told !== 'load')) continue;
    if (isNotHeld(held.reason)) lacks ||= held.reason.slice(NOT_HELD.length);
    else if (held.state === 'READY') ready++;
    else {
      others++;
      reason ||= held.reason;
    }
  }
  if (ready > 0) return { state: 'READY', reason: others === 0 ? '' : shareText(ready, ready + others, reason) };
  return { state: 'UNAVAILABLE', reason: reason || NO_HOLDER + lacks };
}

function shareText(ready: number, all: number, reason: string): string {
  return `${ready} of ${all} workers${reason === '' ? '' : `: ${reason}`}`;
}

/** Whether a worker that drains goes on with sequences of the version (docs/protocol.md R38). */
export function goesOnDraining(model: OwnedModel, version: OwnedVersion): boolean {
  const [living] = version.queue?.sequences ?? [];
  if (living === undefined) return false;
  return [...model.workers.values()].some(({ draining, held }) => draining && heldOf(held, version)?.state === 'READY');
}

/** What its files say of it, known better by now, of the same load. */
export function setSource(model: OwnedModel, source: ModelSource): void {
  model.source = source;
  model.signature = modelSignature(source.config);
  for (const version of model.versions) Object.assign(version, { config: source.config, signature: model.signature });
}

/** As `setSource`, where the files have changed in what their instances are alone. */
export function changeSource(model: OwnedModel, source: ModelSource): void {
  model.hashes = new Set([...model.hashes, source.contentHash]);
  setSource(model, source);
}

/** How far workers are that were told of other instances: over once one has them all and no other is on its way. */
export function instancesChanged(
  model: OwnedModel,
  contentHash: string,
): 'coming' | 'changed' | { readonly reason: string } {
  let failed = '';
  let changed = false;
  for (const view of model.workers.values()) {
    if (view.draining) continue;
    if (!view.answered || view.missed) return 'coming';
    for (const version of model.versions) {
      const held = heldOf(view.versions, version);
      if (held === undefined || isNotHeld(held.reason)) continue;
      if (held.reason !== '') failed ||= held.reason;
      else if (held.state === 'READY' && held.contentHash === contentHash) changed = true;
      else return 'coming';
    }
  }
  return changed || failed === '' ? 'changed' : { reason: failed };
}

export function setStates(model: OwnedModel, state: VersionState, reason: string): void {
  for (const version of model.versions) {
    version.state = state;
    version.reason = reason;
  }
}

/** Every worker that was asked has said what it holds of the model, or is gone (docs/protocol.md R9). */
export function allDescribed({ workers }: OwnedModel): boolean {
  for (const { answered } of workers.values()) if (!answered) return false;
  return true;
}

/** It is served, or on its way from there: an unload that failed, without Redis say, is to be begun anew. */
export function hasQueues({ versions }: OwnedModel): boolean {
  return versions.some(({ queue }) => queue !== undefined);
}

/** Whether it has requests without an outcome that came by then. */
export function hasSince(model: OwnedModel, atUs: number): boolean {
  return allVersions(model).some(({ queue }) => {
    const [first] = queue?.entries ?? [];
    return first !== undefined && first.request.arrivedUs <= atUs;
  });
}

/** True where nothing is queued or running. */
export function isIdle(model: OwnedModel): boolean {
  return allVersions(model).every(hasNothing);
}

function hasNothing({ queue }: OwnedVersion): boolean {
  return queue === undefined || queue.waiting + queue.background + queue.running === 0;
}

/** True of a retiring version without requests and sequences. */
export function isRetired(version: OwnedVersion): boolean {
  const [living] = version.queue?.sequences ?? [];
  return hasNothing(version) && living === undefined;
}

/** As `isIdle`, but steps that wait go to the next owner: they may wait for others, which are sent there. */
export function canHandOver(model: OwnedModel): boolean {
  return allVersions(model).every((version) =>
    version.signature.sequence === undefined ? hasNothing(version) : (version.queue?.running ?? 0) === 0,
  );
}

/** `version 1 is at UNAVAILABLE state: Internal: …;\n…` (model_repository_manager.cc). */
export function loadFailure(model: OwnedModel): string {
  const failed = model.versions.filter(({ state, reason }) => state === 'UNAVAILABLE' && reason !== UNLOADED);
  const lines = failed.map(({ version, state, reason }) => `version ${version} is at ${state} state: ${reason};\n`);
  return `load failed for model '${model.name}': ${lines.join('')}`;
}
