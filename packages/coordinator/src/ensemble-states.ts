import { isDeepStrictEqual } from 'node:util';
import {
  completeEnsemble,
  encodeModelConfig,
  ensembleModels,
  isDecoupledEnsemble,
  type ModelRecord,
} from '@nereid/config';
import { isNoHolder, UNLOADED } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import { type EnsembleRefusal, type EnsembleVerdict, ensembleVerdict } from './ensemble-verdict.ts';
import { type OwnedModel, setSource, setStates } from './owned-model.ts';

/** With roles apart, how long a load waits for a model of the repository that nobody has said anything of yet. */
const UNHEARD_WAIT_MS = 3_000;

export interface EnsembleStatesParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: Directory<ModelRecord>;
  readonly reader: Pick<ModelReader, 'folders'>;
  readonly conditions: Conditions;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly apart: boolean;
  readonly stopping: () => boolean;
  /** Whether this coordinator is about to load the model, or is loading it. */
  readonly isComing: (model: string) => boolean;
  /** The states of an ensemble that serves, or has failed, changed. */
  readonly changed: (model: OwnedModel) => void;
  /** The ensemble is to be loaded anew. */
  readonly reload: (model: OwnedModel) => void;
}

/**
 * Keeps ensembles in line with their models, whoever owns these: what their records in the directory say.
 *
 * An ensemble is READY while each of its steps has a version that is. When one is unloaded it is UNAVAILABLE and
 * "unloaded" too, when one fails it is so for that; and it *awaits its models*: it is served again once all are, without
 * another load. One whose models are right again after its load had failed is loaded anew.
 */
export interface EnsembleStates {
  /** Its models of which no version is ready. */
  missing(ensemble: OwnedModel): readonly string[];
  /** Ends when none of the models is being loaded any more; the ensemble's states are what follows from theirs. */
  wait(ensemble: OwnedModel): Promise<void>;
  /** A model's record changed, or its load has ended. */
  modelChanged(model: string): void;
  /** The ensemble was taken over: what became of its models meanwhile is not known. */
  look(ensemble: OwnedModel): void;
}

export function createEnsembleStates(parts: EnsembleStatesParts): EnsembleStates {
  const { clock, directory, conditions, models, log } = parts;
  const find = (model: string) => directory.record(model);

  const verdictOf = ({ source }: OwnedModel, isUnheard: (model: string) => boolean = () => false) =>
    ensembleVerdict(
      source.config,
      find,
      (model) =>
        parts.isComing(model) ||
        (find(model) === undefined && (directory.owner(model) !== undefined || isUnheard(model))),
    );

  const isOwned = (model: OwnedModel) => {
    const owned = models.get(model.name);
    return owned === model || owned?.next === model;
  };

  /** None where the repository cannot be read now: a load must not stay half done for that. */
  const repositoryModels = async (): Promise<ReadonlySet<string>> => {
    try {
      return new Set((await parts.reader.folders()).map(({ name }) => name));
    } catch (error) {
      log.warn({ err: error }, 'cannot tell which models an ensemble may wait for');
      return new Set();
    }
  };

  /** Nobody waits for that any more, or it is not coming. */
  const settled = async (ensemble: OwnedModel): Promise<EnsembleVerdict> => {
    const present = parts.apart ? await repositoryModels() : undefined;
    const untilUs = clock.nowUs() + UNHEARD_WAIT_MS * 1000;
    const isUnheard = (model: string) => present?.has(model) === true && clock.nowUs() < untilUs;
    const timer = present === undefined ? undefined : clock.at(untilUs, conditions.check);
    let verdict = verdictOf(ensemble, isUnheard);
    await conditions.wait(() => {
      verdict = verdictOf(ensemble, isUnheard);
      return parts.stopping() || !isOwned(ensemble) || verdict.type !== 'coming';
    });
    timer?.cancel();
    return verdict;
  };

  const refuse = (ensemble: OwnedModel, { reason }: Pick<EnsembleRefusal, 'reason'>) => {
    ensemble.awaitsModels = true;
    ensemble.unheld = isNoHolder(reason);
    setStates(ensemble, 'UNAVAILABLE', reason);
  };

  const goOn = (ensemble: OwnedModel) => {
    ensemble.awaitsModels = false;
    ensemble.unheld = false;
    setStates(ensemble, 'READY', '');
  };

  /** False where nothing is new. */
  const complete = (ensemble: OwnedModel): boolean => {
    const { source } = ensemble;
    const { config, labels } = completeEnsemble(source, find);
    const same = encodeModelConfig(config) === encodeModelConfig(source.config);
    if (same && isDeepStrictEqual(labels, source.labels)) return false;
    setSource(ensemble, { ...source, config, labels });
    return true;
  };

  const tell = (ensemble: OwnedModel) => {
    const [version] = ensemble.versions;
    const state = { state: version?.state, reason: version?.reason };
    log.info({ model: ensemble.name, ...state }, 'an ensemble follows its models');
    parts.changed(ensemble);
  };

  const serve = (ensemble: OwnedModel) => {
    if (ensemble.phase === 'failed') {
      parts.reload(ensemble);
      return;
    }
    if (isDecoupledEnsemble(ensemble.source.config, find) !== ensemble.signature.decoupled) {
      // Its queue is one of the other kind, and its signature with it until the reload.
      refuse(ensemble, { reason: UNLOADED });
      parts.reload(ensemble);
      return;
    }
    const isNew = complete(ensemble);
    if (!isNew && ensemble.versions.every(({ state }) => state === 'READY')) return;
    goOn(ensemble);
    tell(ensemble);
  };

  const look = (ensemble: OwnedModel) => {
    const verdict = verdictOf(ensemble);
    if (verdict.type === 'coming') return;
    if (verdict.type === 'served') {
      serve(ensemble);
      return;
    }
    const reason = verdict.unloaded ? UNLOADED : verdict.reason;
    if (ensemble.awaitsModels && ensemble.versions.every((version) => version.reason === reason)) return;
    refuse(ensemble, { reason });
    tell(ensemble);
  };

  const follows = ({ phase, awaitsModels }: OwnedModel) => phase === 'serving' || (phase === 'failed' && awaitsModels);

  return {
    missing: ({ source }) =>
      ensembleModels(source.config).filter(
        (model) => find(model)?.versions.some(({ state }) => state === 'READY') !== true,
      ),
    async wait(ensemble) {
      const verdict = await settled(ensemble);
      if (verdict.type === 'refused') refuse(ensemble, verdict);
      else if (verdict.type === 'served') {
        complete(ensemble);
        goOn(ensemble);
      }
    },
    modelChanged(model) {
      conditions.check();
      for (const ensemble of [...models.values()]) {
        if (follows(ensemble) && ensembleModels(ensemble.source.config).includes(model)) look(ensemble);
      }
    },
    look(ensemble) {
      if (follows(ensemble)) look(ensemble);
    },
  };
}
