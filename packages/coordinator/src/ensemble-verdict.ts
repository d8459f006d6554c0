/** Whether an ensemble can be served, from what the directory says of its models. */
import {
  checkEnsembleModels,
  ensembleCircle,
  ensembleModels,
  ensembleReadiness,
  type FindModel,
  type ModelConfig,
} from '@nereid/config';
import { ERROR_TABLE, isNoHolder, UNLOADED } from '@nereid/protocol';

export type EnsembleVerdict =
  | { readonly type: 'served' }
  /** One of its models is being loaded. */
  | { readonly type: 'coming' }
  | EnsembleRefusal;

export interface EnsembleRefusal {
  readonly type: 'refused';
  /** As the states of its versions tell it. */
  readonly reason: string;
  /** One of its models was unloaded, and no model's state is worse. */
  readonly unloaded: boolean;
}

/**
 * `isComing`: whether a model that is not ready may be soon. What is wrong with a model's state goes before what is wrong
 * with its configuration, which is not known of one whose files are at fault. A circle is told at once: none of it would
 * ever come.
 */
export function ensembleVerdict(
  config: ModelConfig,
  find: FindModel,
  isComing: (model: string) => boolean,
): EnsembleVerdict {
  const circle = ensembleCircle(config, find);
  if (circle !== undefined) return refused(circle);
  const waiting = ensembleReadiness(config, find);
  const isUnknown = ensembleModels(config).some((model) => find(model) === undefined);
  if (waiting === undefined && !isUnknown) {
    const wrong = checkEnsembleModels(config, find);
    return wrong === undefined ? { type: 'served' } : refused(wrong);
  }
  const idle = ensembleModels(config).filter((model) => find(model)?.versions.some(isReady) !== true);
  if (idle.some((model) => isComing(model) || find(model)?.versions.some(isLoading) === true))
    return { type: 'coming' };
  if (waiting === undefined) return refused(checkEnsembleModels(config, find) ?? '');
  const states = idle.flatMap((model) => find(model)?.versions ?? []);
  const unheld = states.find(({ reason }) => isNoHolder(reason));
  if (unheld !== undefined) return { type: 'refused', reason: unheld.reason, unloaded: false };
  return { ...refused(waiting), unloaded: idle.length > 0 && states.every(isUnloaded) };
}

type VersionRecord = NonNullable<ReturnType<FindModel>>['versions'][number];

const isReady = ({ state }: VersionRecord) => state === 'READY';
const isLoading = ({ state }: VersionRecord) => state === 'LOADING';
const isUnloaded = ({ state, reason }: VersionRecord) => state === 'UNLOADING' || reason === UNLOADED;

function refused(text: string): EnsembleRefusal {
  return { type: 'refused', reason: `${ERROR_TABLE.INVALID_ARG.label}: ${text}`, unloaded: false };
}
