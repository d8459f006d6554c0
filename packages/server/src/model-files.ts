import type { ReadModelOptions } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { createOverrideFolders, type ModelFiles, openRepositories, repositoryReader } from '@nereid/repository';
import type { ProcessParts } from './process-parts.ts';
import type { ServerOptions } from './server-options.ts';

export interface ModelFilesUse {
  readonly gpus: number | undefined;
  readonly shared: boolean;
  readonly runCode: boolean;
}

/**
 * The repositories of a process. `gpus`: see ReadModelOptions. Where coordinator and worker are in one process
 * (`shared`), the worker takes the files as the coordinator has just read them. `runCode`: models may complete their config;
 * a worker by itself has it from their owner.
 */
export async function addModelFiles(
  {
    lifecycle,
    shared: { clock, uploads },
  }: Pick<ProcessParts, 'lifecycle'> & {
    readonly shared: Pick<ProcessParts['shared'], 'clock'> & Partial<Pick<ProcessParts['shared'], 'uploads'>>;
  },
  options: ServerOptions,
  { gpus, shared, runCode }: ModelFilesUse,
): Promise<ModelFiles> {
  const { modelRepositories, environment = {}, modelNamespacing: namespacing = false } = options;
  const repositories = await lifecycle.add(
    'repositories',
    () => openRepositories(modelRepositories, { environment, clock, namespacing }),
    (opened) => opened.close(),
  );
  const overrides = await lifecycle.add(
    'override folders',
    async () => createOverrideFolders(async (name) => uploads?.get(name)),
    (opened) => opened.close(),
  );
  return repositoryReader(repositories, { ...readModelOptions(options, gpus), runCode }, { shared, overrides });
}

const MAX_BATCH_SIZE_SETTING = 'default-max-batch-size';

function readModelOptions(options: ServerOptions, gpus: number | undefined): ReadModelOptions {
  const settings = { ...options.backendConfig?.[''], ...options.backendConfig?.onnxruntime };
  const given = settings[MAX_BATCH_SIZE_SETTING];
  const rows = Number(given);
  if (given !== undefined && !(Number.isInteger(rows) && rows > 0)) {
    const text = `backend setting ${MAX_BATCH_SIZE_SETTING} must be a whole number above 0, not '${given}'`;
    throw new NereidError('INVALID_ARG', text, { field: 'backend-config' });
  }
  return {
    autoComplete: options.autoCompleteConfig ?? true,
    gpus,
    ...(given === undefined ? {} : { defaultMaxBatchSize: rows }),
    ...(options.modelConfigName === undefined || options.modelConfigName === ''
      ? {}
      : { modelConfigName: options.modelConfigName }),
  };
}
