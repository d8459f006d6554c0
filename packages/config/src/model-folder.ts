/** What a model's folder holds, as far as it tells how the model is configured. */
import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { NereidError } from '@nereid/protocol';
import type { VersionFile } from './complete-backend.ts';
import { isEnsemble } from './complete-model-config.ts';
import type { ConfigText } from './config-positions.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { isIgnoredName } from './ignored-names.ts';
import { LIMITS } from './limits.ts';
import { pathInside, readModelText } from './model-files.ts';
import { isFolder, unreadable } from './repository.ts';
import { compareVersions, isVersionName } from './select-versions.ts';

const CONFIG_FILE = 'config.pbtxt';
/** Backends whose model file is known to be needed in each version folder. */
const FILE_BACKENDS: readonly string[] = ['onnxruntime', 'javascript'];

/** The version folders of a model that are there, ascending by number. */
export async function modelVersions(directory: string): Promise<string[]> {
  try {
    const versions: string[] = [];
    for (const name of await readdir(directory)) {
      if (isVersionName(name) && !isIgnoredName(name) && (await isFolder(join(directory, name)))) versions.push(name);
    }
    if (versions.length > LIMITS.versions_per_model_max) {
      const text = `'${directory}' has ${versions.length} versions, more than ${LIMITS.versions_per_model_max}`;
      throw new NereidError('INVALID_ARG', text);
    }
    return versions.sort(compareVersions);
  } catch (error) {
    throw error instanceof NereidError ? error : unreadable('model directory', directory, error);
  }
}

/** Folders of digits that are no versions, since they begin with 0; none where the folder cannot be read. */
export async function misnamedVersions(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => []);
  const found: string[] = [];
  for (const name of names) if (/^0[0-9]*$/.test(name) && (await isFolder(join(directory, name)))) found.push(name);
  return found.sort();
}

/** Which file the config is in. */
export interface ConfigChoice {
  /** `--model-config-name`; '' for none. */
  readonly configName: string;
  /** Without one the config may be completed. */
  readonly mayLack: boolean;
}

/** Relative path of the config file, null for none where it may be completed. */
export async function chooseConfigFile(directory: string, choice: ConfigChoice): Promise<string | null> {
  if (choice.configName !== '') {
    const custom = `configs/${choice.configName}.pbtxt`;
    if (await exists(pathInside(directory, custom, '--model-config-name'))) return custom;
  }
  return !choice.mayLack || (await exists(join(directory, CONFIG_FILE))) ? CONFIG_FILE : null;
}

export async function readConfigText(directory: string, file: string): Promise<ConfigText> {
  const source = join(directory, file);
  return { source, text: await readModelText(source, LIMITS.config_bytes_max), form: 'pbtxt' };
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

/** What the first version folder in the order of names holds, which is the one that Triton looks into; undefined for none. */
export async function firstVersionFiles(
  directory: string,
  versions: readonly string[],
): Promise<VersionFile[] | undefined> {
  const first = [...versions].sort()[0];
  if (first === undefined) return undefined;
  const folder = join(directory, first);
  try {
    const names = await readdir(folder);
    return await Promise.all(names.map(async (name) => ({ name, directory: await isFolder(join(folder, name)) })));
  } catch (error) {
    throw unreadable('version folder', folder, error);
  }
}

/** The model file of a version; undefined where the backend is not known to need one. Throws UNAVAILABLE where it is not there. */
export async function modelFile(config: ModelConfig, directory: string, version: string): Promise<string | undefined> {
  if (isEnsemble(config) || !FILE_BACKENDS.includes(config.backend)) return undefined;
  let path = pathInside(join(directory, version), config.defaultModelFilename, 'default_model_filename');
  // A large ONNX model may be a folder with the file of that name and its weights.
  if (config.backend === 'onnxruntime' && (await isFolder(path))) path = join(path, 'model.onnx');
  if (await exists(path)) return path;
  const text = `unable to find '${path}' for model '${config.name}' version ${version}`;
  throw new NereidError('UNAVAILABLE', text, { field: 'default_model_filename' });
}
