/** Whether an ensemble can be served, from what the directory says of its models (Triton: ensemble_utils.cc, model_repository_manager.cc). */
import { type EnsembleStep, ensembleModels, type ModelConfig, type ModelRecord } from '@nereid/config';
import { ERROR_TABLE, type ErrorInfo, isNoHolder, UNLOADED } from '@nereid/protocol';

export type EnsembleVerdict =
  | { readonly type: 'served' }
  /** One of its models is being loaded. */
  | { readonly type: 'coming' }
  | EnsembleRefusal;

export interface EnsembleRefusal {
  readonly type: 'refused';
  /** As the states of its versions tell it. */
  readonly reason: string;
  /** One of its models was unloaded, and nothing else is wrong. */
  readonly unloaded: boolean;
}

export interface KnownModels {
  find(model: string): ModelRecord | undefined;
  /** Whether it is about to be loaded, or may be, by whoever. */
  isComing(model: string): boolean;
}

/**
 * What is wrong with a model's state goes before what is wrong with its configuration, which is not known of one whose
 * files are at fault. A circle is told at once: none of it would ever come.
 */
export function ensembleVerdict(
  config: ModelConfig,
  steps: readonly EnsembleStep[],
  models: KnownModels,
): EnsembleVerdict {
  const circle = circleOf(config, models.find);
  if (circle !== undefined) return refused({ code: 'INVALID_ARG', message: circle });
  let unloaded: EnsembleRefusal | undefined;
  let isComing = false;
  for (const step of steps) {
    const record = models.find(step.model);
    if (isReady(record, step)) continue;
    if (models.isComing(step.model) || isLoading(record)) isComing = true;
    else if (record !== undefined) {
      const refusal = notReady(config.name, record, step);
      if (!refusal.unloaded) return refusal;
      unloaded ??= refusal;
    }
  }
  if (isComing) return { type: 'coming' };
  const missing = ensembleModels(config).filter((model) => models.find(model) === undefined);
  if (missing.length === 0) return unloaded ?? { type: 'served' };
  const message = `ensemble ${config.name} contains models that are not available or ambiguous: ${missing.join(', ')}`;
  return refused({ code: 'INVALID_ARG', message });
}

function refused({ code, message }: Pick<ErrorInfo, 'code' | 'message'>): EnsembleRefusal {
  return { type: 'refused', reason: `${ERROR_TABLE[code].label}: ${message}`, unloaded: false };
}

function isReady(record: ModelRecord | undefined, { version: wanted }: EnsembleStep): boolean {
  return (
    record?.versions.some(({ version, state }) => state === 'READY' && (wanted === '' || version === wanted)) === true
  );
}

function isLoading(record: ModelRecord | undefined): boolean {
  return record?.versions.some(({ state }) => state === 'LOADING') === true;
}

function notReady(
  ensemble: string,
  { name, versions }: ModelRecord,
  { version: wanted }: EnsembleStep,
): EnsembleRefusal {
  if (versions.some(({ state }) => state === 'READY')) {
    return refused({
      code: 'INVALID_ARG',
      message: `ensemble '${ensemble}' depends on '${name}' whose required version ${wanted} is not loaded.`,
    });
  }
  const unheld = versions.find(({ reason }) => isNoHolder(reason));
  if (unheld !== undefined) return { type: 'refused', reason: unheld.reason, unloaded: false };
  const failed = versions.findLast(({ state, reason }) => state === 'UNAVAILABLE' && reason !== UNLOADED);
  const detail = failed === undefined ? '' : `. Model '${name}' loading failed with error: ${failed.reason}`;
  const message = `ensemble '${ensemble}' depends on '${name}' which has no loaded version${detail}`;
  return { ...refused({ code: 'INVALID_ARG', message }), unloaded: failed === undefined };
}

/** Triton's text of a circle that the ensemble is part of; undefined where there is none. */
function circleOf(config: ModelConfig, find: KnownModels['find']): string | undefined {
  const seen = new Set<string>();
  const pathBack = (model: string): readonly string[] | undefined => {
    if (model === config.name) return [model];
    if (seen.has(model)) return undefined;
    seen.add(model);
    const record = find(model);
    for (const next of record === undefined ? [] : ensembleModels(record.config)) {
      const rest = pathBack(next);
      if (rest !== undefined) return [model, ...rest];
    }
    return undefined;
  };
  for (const model of ensembleModels(config)) {
    const path = pathBack(model);
    if (path !== undefined) return `circular dependency between ensembles: ${[config.name, ...path].join(' -> ')}`;
  }
  return undefined;
}
