/** Where a model's batching strategy stands: in Triton a shared library, here a JavaScript module. */
import { access } from 'node:fs/promises';
import { extname, isAbsolute, join, posix } from 'node:path';
import { NereidError } from '@nereid/protocol';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { pathInside } from './model-files.ts';

const STRATEGY_PATH_PARAMETER = 'TRITON_BATCH_STRATEGY_PATH';
const STRATEGY_FILE = 'strategy.mjs';
/** Triton's, which cannot be run here. */
const STRATEGY_LIBRARY = 'batchstrategy.so';
const MODULE_EXTENSIONS: readonly string[] = ['.mjs', '.js'];

export interface StrategyFiles {
  /** The module of each version that has one, relative to the model's folder, with slashes. */
  readonly files: Readonly<Record<string, string>>;
  /** Told at the load: there is one, and it has no effect. */
  readonly unused: string | undefined;
}

/**
 * As in Triton (backend_model.cc, SetBatchingStrategy) the parameter TRITON_BATCH_STRATEGY_PATH goes before
 * the version's folder and that before the model's, and all is without effect where the model has no dynamic batching.
 * Throws INVALID_ARG, saying what to write instead, for what is no module inside the model's folder: a
 * library that is there alone too, since without it the batches would be others.
 */
export async function strategyFiles(
  config: ModelConfig,
  directory: string,
  versions: readonly string[],
): Promise<StrategyFiles> {
  const parameter = config.parameters[STRATEGY_PATH_PARAMETER]?.stringValue ?? '';
  const batches = config.schedulingChoice.case === 'dynamicBatching';
  const files: Record<string, string> = {};
  let unused: string | undefined;
  for (const version of versions) {
    const file = parameter === '' ? await besideModel(directory, version) : parameter;
    if (file === undefined) continue;
    if (batches) files[version] = await checked(config, directory, file);
    else unused = `the batching strategy '${file}' of model '${config.name}' has no effect without dynamic_batching`;
  }
  return { files, unused };
}

/** The modules and libraries that are there, also without effect, relative to the model's folder: what is hashed of them. */
export async function strategiesBeside(
  config: ModelConfig,
  directory: string,
  versions: readonly string[],
): Promise<string[]> {
  const parameter = config.parameters[STRATEGY_PATH_PARAMETER]?.stringValue ?? '';
  const found = new Set<string>();
  for (const version of versions) {
    const file = parameter === '' ? await besideModel(directory, version) : posix.normalize(parameter);
    // Where one is needed and is not inside the folder, that is told by `strategyFiles`.
    if (file !== undefined && !file.startsWith('..') && !isAbsolute(file) && (await exists(join(directory, file)))) {
      found.add(file);
    }
  }
  return [...found];
}

function refuse(config: ModelConfig, what: string): never {
  const text =
    `model '${config.name}' cannot be loaded with its batching strategy: ${what}. Write it as a module, ` +
    `${STRATEGY_FILE} in the folder of the model or the version, that exports include(request, batch)`;
  throw new NereidError('INVALID_ARG', text, { field: `parameters.${STRATEGY_PATH_PARAMETER}` });
}

/** A module goes before a library wherever they stand, so that one folder can serve both servers. */
async function besideModel(directory: string, version: string): Promise<string | undefined> {
  for (const name of [STRATEGY_FILE, STRATEGY_LIBRARY]) {
    for (const file of [posix.join(version, name), name]) if (await exists(join(directory, file))) return file;
  }
  return undefined;
}

async function checked(config: ModelConfig, directory: string, file: string): Promise<string> {
  if (!MODULE_EXTENSIONS.includes(extname(file))) refuse(config, `'${file}' is no JavaScript module (.mjs or .js)`);
  const path = pathInside(directory, file, STRATEGY_PATH_PARAMETER);
  if (!(await exists(path))) refuse(config, `there is no '${path}'`);
  return posix.normalize(file);
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
