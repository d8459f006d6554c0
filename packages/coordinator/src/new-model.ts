/** Models at the moment at which a coordinator begins to own them. */
import {
  ensembleModels,
  type ModelConfig,
  type ModelRecord,
  type ModelSource,
  modelSignature,
  unsupportedReason,
} from '@nereid/config';
import { type Epoch, ERROR_TABLE, errorInfo, UNLOADED } from '@nereid/protocol';
import { createScheduler } from '@nereid/scheduler';
import { isEnsemble, type ModelPhase, type OwnedModel, type OwnedVersion } from './owned-model.ts';

/** A model to be loaded from its files; `held` is its earlier load. */
export function loadedModel(source: ModelSource, epoch: Epoch, held: OwnedModel | undefined): OwnedModel {
  const known = held === undefined ? [] : [...held.formerVersions, ...held.versions.map(({ version }) => version)];
  const versions = source.versions.map((version) => ownedVersion({ version, state: 'LOADING', reason: '' }));
  return {
    ...ownedModel(source, epoch, 'loading', versions),
    formerVersions: known.filter((version) => !source.versions.includes(version)),
    // Batch numbers go on rising, so that a late `done` of an earlier load finds nothing.
    batches: held?.batches ?? 0,
  };
}

/**
 * A model as an earlier owner's record says: served where a version is READY, and left unloaded where
 * it was unloaded on purpose, unless it is to be loaded `anew`. An ensemble that waits for its models is served as far as
 * they are. Undefined for one that is to be loaded.
 */
export function recordedModel(record: ModelRecord, epoch: Epoch, anew: boolean): OwnedModel | undefined {
  const { name, config, labels, contentHash, filesHash, strategies } = record;
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
  };
  const model = ownedModel(source, epoch, served ? 'serving' : 'unloaded', selected.map(ownedVersion));
  return {
    ...model,
    formerVersions: record.versions.map(({ version }) => version).filter((version) => !versions.includes(version)),
    settling: served && !isEnsemble(model),
    awaitsModels: record.awaitsModels === true,
  };
}

function ownedVersion({ version, state, reason }: ModelRecord['versions'][number]): OwnedVersion {
  return {
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
  source: ModelSource,
  epoch: Epoch,
  phase: ModelPhase,
  versions: readonly OwnedVersion[],
): OwnedModel {
  return {
    name: source.name,
    epoch,
    source,
    signature: modelSignature(source.config),
    phase,
    versions,
    formerVersions: [],
    settling: false,
    unheld: false,
    awaitsModels: false,
    workers: new Map(),
    batches: 0,
  };
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
