import { listModels, readModel, unsupportedReason } from '@nereid/config';
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
    return { model: model.name, versions: source.versions, problem: unsupportedReason(source.config) ?? '' };
  } catch (failure) {
    if (!(failure instanceof NereidError)) throw failure;
    return { model: model.name, versions: [], problem: errorInfo(failure).message };
  }
}

/**
 * `nereid models check`: reads, completes and checks every model of the repositories as `serve`
 * does, but runs none. Exit code 4 if one is wrong.
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
  const checked: CheckedModel[] = [];
  for (const entry of entries) checked.push(await checkModel(entry, options));
  if (options.json) {
    options.stdout(`${JSON.stringify(checked)}\n`);
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
