import {
  checkEnsembleModels,
  decodeModelConfig,
  ensembleModels,
  ensembleReadiness,
  listModels,
  type ModelRecord,
  type ModelSource,
  readModel,
  unsupportedReason,
} from '@nereid/config';
import { errorInfo, NereidError } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import type { WriteText } from './log-destination.ts';
import { renderTable } from './table.ts';

export interface ModelsCheckOptions {
  readonly repositories: readonly string[];
  readonly json: boolean;
  readonly autoComplete: boolean;
  readonly modelConfigName: string;
  readonly stdout: WriteText;
  readonly stderr: WriteText;
}

interface CheckedModel {
  readonly model: string;
  readonly versions: readonly string[];
  /** What is wrong, '' for nothing. */
  readonly problem: string;
  /** Undefined where it could not be read. */
  readonly source?: ModelSource;
}

async function checkModel(
  model: { readonly name: string; readonly directory: string; readonly conflict: string | null },
  options: ModelsCheckOptions,
): Promise<CheckedModel> {
  if (model.conflict !== null) return { model: model.name, versions: [], problem: model.conflict };
  try {
    // Without GPUs, so that a repository checks alike on any machine.
    const source = await readModel(model, {
      autoComplete: options.autoComplete,
      modelConfigName: options.modelConfigName,
      gpus: 0,
    });
    const problem = unsupportedReason(source.config) ?? '';
    return { model: model.name, versions: source.versions, problem, source };
  } catch (failure) {
    if (!(failure instanceof NereidError)) throw failure;
    return { model: model.name, versions: [], problem: errorInfo(failure).message };
  }
}

/** Those that are right by themselves and made of others, as `serve` would find them with all of the others loaded. */
function checkEnsembles(alone: readonly CheckedModel[]): readonly CheckedModel[] {
  const records = new Map(alone.map((each) => [each.model, expectedRecord(each)]));
  const find = (model: string) => records.get(model);
  const isEnsemble = ({ source }: CheckedModel) => source !== undefined && ensembleModels(source.config).length > 0;
  const problems = new Map<string, string>();
  for (const { model, source } of alone.filter(isEnsemble)) {
    const problem = source && (checkEnsembleModels(source.config, find) ?? ensembleReadiness(source.config, find));
    if (problem !== undefined) problems.set(model, problem);
  }
  // One that is wrong has no version for others; the set grows while it is walked.
  for (const wrong of problems.keys()) {
    const record = find(wrong);
    if (record !== undefined) records.set(wrong, { ...record, versions: [] });
    for (const { model, source } of alone.filter(isEnsemble)) {
      const problem = source && !problems.has(model) ? ensembleReadiness(source.config, find) : undefined;
      if (problem !== undefined) problems.set(model, problem);
    }
  }
  return alone.map((each) => ({ ...each, problem: problems.get(each.model) ?? each.problem }));
}

/** What the directory would have of it; one that is wrong has no version. */
function expectedRecord({ model, versions, problem, source }: CheckedModel): ModelRecord {
  if (source === undefined) {
    const config = decodeModelConfig(JSON.stringify({ name: model }));
    return { name: model, config, labels: {}, versions: [], contentHash: '' };
  }
  const { config, labels, contentHash } = source;
  const isRight = problem === '' || ensembleModels(config).length > 0;
  const ready = versions.map((version) => ({ version, state: 'READY', reason: '' }) as const);
  return { name: model, config, labels, versions: isRight ? ready : [], contentHash };
}

/**
 * `nereid models check`: reads, completes and checks every model of the repositories as `serve`
 * does, but runs none; ensembles with the models of the repositories that they are made of. Exit code 4 if one is wrong.
 */
export async function checkModels(options: ModelsCheckOptions): Promise<ExitCode> {
  let entries: Awaited<ReturnType<typeof listModels>>;
  try {
    entries = await listModels(options.repositories);
  } catch (failure) {
    if (!(failure instanceof NereidError)) throw failure;
    options.stderr(`nereid models check: ${failure.message}\n`);
    return EXIT_CODE.repository;
  }
  const alone: CheckedModel[] = [];
  for (const entry of entries) alone.push(await checkModel(entry, options));
  const checked = checkEnsembles(alone);
  if (options.json) {
    const told = checked.map(({ model, versions, problem }) => ({ model, versions, problem }));
    options.stdout(`${JSON.stringify(told)}\n`);
  } else {
    const rows = checked.map(({ model, versions, problem }) => [
      model,
      versions.length === 0 ? '-' : versions.join(', '),
      problem === '' ? 'OK' : problem,
    ]);
    options.stdout(`${renderTable(['Model', 'Versions', 'Status'], rows)}\n`);
  }
  return checked.every(({ problem }) => problem === '') ? EXIT_CODE.stopped : EXIT_CODE.repository;
}
