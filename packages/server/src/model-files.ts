import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { ReadModelOptions } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { joinRepositories, localRepository, type ModelReader, repositoryReader } from '@nereid/repository';
import type { ServerOptions } from './server-options.ts';

export interface ModelFiles {
  /** For the coordinator. */
  readonly reader: ModelReader;
  /** For the worker: the model's folder. */
  readonly findModel: (name: string) => string | undefined;
  /** For the worker: the content hash of the model's files. */
  readonly hashModel: (name: string) => Promise<string>;
}

/**
 * The repositories as coordinator and worker of one process see them. Both read the same files, so
 * the worker takes the hash that the coordinator's read has just computed. `runCode`: models may complete their config.
 */
export function modelFiles(options: ServerOptions, gpus: number | undefined, runCode = true): ModelFiles {
  const repositories = options.modelRepositories.map((path) => resolve(path));
  const joined = joinRepositories(repositories.map(localRepository));
  const reader = repositoryReader(joined, { ...readModelOptions(options, gpus), runCode });
  const hashes = new Map<string, string>();
  return {
    reader: {
      ...reader,
      async read(name) {
        const source = await reader.read(name);
        hashes.set(name, source.contentHash);
        return source;
      },
    },
    findModel: (name) => repositories.map((path) => join(path, name)).find((path) => existsSync(path)),
    async hashModel(name) {
      const hash = hashes.get(name);
      if (hash === undefined) throw new NereidError('NOT_FOUND', `model '${name}' has not been read`);
      return hash;
    },
  };
}

/** The repositories of a worker by itself, which reads and hashes them for itself; models complete their config at the coordinator alone. */
export function ownModelFiles(options: ServerOptions): Pick<ModelFiles, 'findModel' | 'hashModel'> {
  const { findModel, reader } = modelFiles(options, undefined, false);
  return { findModel, hashModel: async (name) => (await reader.read(name)).contentHash };
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
