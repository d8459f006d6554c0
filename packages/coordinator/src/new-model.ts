/** Models at the moment at which a coordinator begins to own them. */
import { isDeepStrictEqual } from 'node:util';
import {
  ensembleModels,
  type ModelConfig,
  type ModelRecord,
  type ModelSource,
  modelSignature,
  type RetiringLoad,
  unsupportedReason,
} from '@nereid/config';
import { type Epoch, ERROR_TABLE, errorInfo, UNLOADED } from '@nereid/protocol';
import { createScheduler } from '@nereid/scheduler';
import { isEnsemble, type OwnedModel, type OwnedVersion } from './owned-model.ts';

/** A request that was checked against an earlier load has come by then. */
const CHECKED_EARLIER_US = 30_000_000;

/** A model to be loaded from its files; `held` is its earlier load, `record` what an earlier owner told of it. */
export function loadedModel(
  source: ModelSource,
  epoch: Epoch,
  held: OwnedModel | undefined,
  record?: ModelRecord | undefined,
): OwnedModel {
  return {
    ...newLoad(source, epoch, loadAfter(held, record)),
    formerVersions: formerVersions(source, held),
    pinned: held?.pinned ?? record?.pinned,
    // Batch numbers go on rising, so that a late `done` of an earlier load finds nothing.
    batches: held?.batches ?? 0,
  };
}

/** As `loadedModel`, beside the load that serves. */
export function nextLoad(source: ModelSource, held: OwnedModel): OwnedModel {
  const next = newLoad(source, held.epoch, loadAfter(held, undefined));
  held.lastLoad = next.load;
  return { ...next, formerVersions: formerVersions(source, held), workers: held.workers };
}

/**
 * The next load serves from now on. What the one before has accepted ends there, and what was counted of a version goes on
 * being counted.
 */
export function adoptNext(model: OwnedModel, next: OwnedModel, nowUs: number): void {
  if (!isDeepStrictEqual(model.signature, next.signature)) model.checksUntilUs = nowUs + CHECKED_EARLIER_US;
  const { load, source, signature, hashes, versions, formerVersions, awaitsModels, unheld } = next;
  const retiring = [...model.retiring, ...model.versions.filter(({ queue }) => queue !== undefined)];
  Object.assign(model, { load, source, signature, hashes, versions, formerVersions, awaitsModels, unheld, retiring });
  model.next = undefined;
}

function newLoad(source: ModelSource, epoch: Epoch, load: number): OwnedModel {
  const signature = modelSignature(source.config);
  const { config } = source;
  const versions = source.versions.map((version) =>
    ownedVersion({ version, state: 'LOADING', reason: '' }, { load, config, signature }),
  );
  return ownedModel({ source, signature, epoch, phase: 'loading', versions, load });
}

/** A number that no worker has heard of yet. */
function loadAfter(held: OwnedModel | undefined, record: ModelRecord | undefined): number {
  const known = [held?.lastLoad, record === undefined ? undefined : (record.load ?? 0)];
  return Math.max(-1, ...known.flatMap((load) => load ?? [])) + 1;
}

function formerVersions({ versions }: ModelSource, held: OwnedModel | undefined): readonly string[] {
  const known = held === undefined ? [] : [...held.formerVersions, ...held.versions.map(({ version }) => version)];
  return known.filter((version) => !versions.includes(version));
}

/**
 * A model as an earlier owner's record says: served where a version is READY, and left unloaded where
 * it was unloaded on purpose, unless it is to be loaded `anew`. An ensemble that waits for its models is served as far as
 * they are. Undefined for one that is to be loaded.
 */
export function recordedModel(record: ModelRecord, epoch: Epoch, anew: boolean): OwnedModel | undefined {
  const { name, config, labels, contentHash, filesHash, strategies, override } = record;
  const served = record.versions.some(({ state }) => state === 'READY') || record.awaitsModels === true;
  if (!served && (anew || record.versions.length === 0 || record.versions.some(({ reason }) => reason !== UNLOADED))) {
    return undefined;
  }
  const isSelected = ({ reason }: ModelRecord['versions'][number]) =>
    reason !== UNLOADED || record.awaitsModels === true;
  const selected = served ? record.versions.filter(isSelected) : record.versions;
  const versions = selected.map(({ version }) => version);
  // Its files are the workers' and not read here.
  const source: ModelSource = {
    ...{ name, directory: '', config, labels, versions, contentHash },
    ...(filesHash === undefined ? {} : { filesHash }),
    ...(strategies === undefined ? {} : { strategies }),
    ...(override === undefined ? {} : { override }),
  };
  const load = record.load ?? 0;
  const signature = modelSignature(config);
  const owned = selected.map((version) => ownedVersion(version, { load, config, signature }));
  const phase = served ? 'serving' : 'unloaded';
  const model = ownedModel({ source, signature, epoch, phase, versions: owned, load });
  return {
    ...model,
    retiring: served ? (record.retiring ?? []).map(retiringVersion) : [],
    formerVersions: record.versions.map(({ version }) => version).filter((version) => !versions.includes(version)),
    settling: served && !isEnsemble(model),
    awaitsModels: record.awaitsModels === true,
    pinned: record.pinned,
  };
}

function retiringVersion({ load, version, config }: RetiringLoad): OwnedVersion {
  const of = { load, config, signature: modelSignature(config) };
  return ownedVersion({ version, state: 'READY', reason: '' }, of);
}

function ownedVersion(
  { version, state, reason }: ModelRecord['versions'][number],
  of: Pick<OwnedVersion, 'load' | 'config' | 'signature'>,
): OwnedVersion {
  return {
    ...of,
    version,
    state,
    reason,
    strategy: undefined,
    queue: undefined,
    goesOn: false,
    statistics: undefined,
    hideMetrics: undefined,
  };
}

function ownedModel(
  of: Pick<OwnedModel, 'source' | 'signature' | 'epoch' | 'phase' | 'versions' | 'load'>,
): OwnedModel {
  return {
    ...of,
    name: of.source.name,
    lastLoad: of.load,
    checksUntilUs: Number.NEGATIVE_INFINITY,
    hashes: new Set([of.source.contentHash]),
    retiring: [],
    next: undefined,
    formerVersions: [],
    settling: false,
    unheld: false,
    awaitsModels: false,
    workers: new Map(),
    batches: 0,
  };
}

export function isEnsembleSource({ config }: ModelSource): boolean {
  return ensembleModels(config).length > 0;
}

/** Why a model is not to be served as configured, as its state tells, asked of the config and of the scheduler. */
export function unsupportedText({ config }: ModelSource): string | undefined {
  const reason = unsupportedReason(config) ?? refusedByScheduler(config);
  return reason === undefined ? undefined : `${ERROR_TABLE.UNSUPPORTED.label}: ${reason}`;
}

function refusedByScheduler(config: ModelConfig): string | undefined {
  if (ensembleModels(config).length > 0) return undefined;
  try {
    createScheduler(config);
    return undefined;
  } catch (error) {
    return errorInfo(error).message;
  }
}
