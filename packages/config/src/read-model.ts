import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { errorInfo, NereidError } from '@nereid/protocol';
import { checkModelConfig } from './check-model-config.ts';
import { checkOnnxGraph } from './check-onnx-graph.ts';
import type { VersionFile } from './complete-backend.ts';
import { completeFromOnnx, DEFAULT_MAX_BATCH_SIZE } from './complete-from-onnx.ts';
import { completeModelConfig, isEnsemble, normaliseModelConfig } from './complete-model-config.ts';
import { type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';
import { isIgnoredName } from './ignored-names.ts';
import { checkInitialStates, initialStateFiles } from './initial-state-files.ts';
import { LIMITS } from './limits.ts';
import { hashModelFiles, pathInside, readLabels, readModelText } from './model-files.ts';
import { modelSignature } from './model-signature.ts';
import { type OnnxGraph, readOnnxFile } from './onnx-graph.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { isFolder, unreadable } from './repository.ts';
import { compareVersions, isVersionName, selectVersions } from './select-versions.ts';
import { strategyFiles } from './strategy-files.ts';
import { unsupportedReason } from './unsupported-reason.ts';
import { checkWarmup, warmupFiles } from './warmup.ts';

export interface ReadModelOptions {
  /** False for `--disable-auto-complete-config`. */
  readonly autoComplete: boolean;
  /** `default-max-batch-size` of the backend's settings. */
  readonly defaultMaxBatchSize?: number;
  /** GPUs that can be used, numbered from 0; undefined where each worker goes by its own. */
  readonly gpus: number | undefined;
  /** `--model-config-name`: `configs/<name>.pbtxt` goes before config.pbtxt where it is there. */
  readonly modelConfigName?: string;
}

/** A model as its files describe it: everything that a ModelRecord needs but the versions' states. */
export interface ModelSource {
  readonly name: string;
  readonly directory: string;
  /** Completed, normalised and checked, also against the model's files. */
  readonly config: ModelConfig;
  /** Class labels by output name. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  /** Those that the version policy picks, ascending by number; at least one. */
  readonly versions: readonly string[];
  /** SHA-256 over the selected versions and the files beside them: config, labels, initial states, warm-up data, strategies. */
  readonly contentHash: string;
  /** As `contentHash`, without the config file. */
  readonly filesHash?: string;
  /** Module of the batching strategy by version, relative to `directory`; absent where no version has one. */
  readonly strategies?: Readonly<Record<string, string>>;
  /** What is without effect; for who loads it to log. */
  readonly warning?: string;
}

const CONFIG_FILE = 'config.pbtxt';
/** Backends whose model file is known to be needed in each version folder. */
const FILE_BACKENDS: readonly string[] = ['onnxruntime', 'javascript'];

/** `reason` of the NereidErrors of `readModel` that arise once versions are known. */
export const LOAD_FAILED = 'load_failed';

/**
 * Reads, completes and checks one model. An ONNX graph is read without its weights. Whether this
 * version of Nereid can serve it is for `unsupportedReason` to say.
 * Throws a NereidError in Triton's words. Triton finds a wrong config or an unreadable folder when it
 * polls, and lists such a model without version or state; what it finds when it loads (no version
 * under the policy, a missing model or label file, a file that contradicts the config) has the reason
 * LOAD_FAILED here.
 */
export async function readModel(
  model: { readonly name: string; readonly directory: string },
  options: ReadModelOptions,
): Promise<ModelSource> {
  const { name, directory } = model;
  const present = await modelVersions(directory);
  const configFile = await chooseConfigFile(directory, options);
  const given = configFile === null ? create(ModelConfigSchema) : await readConfig(directory, configFile);
  // Triton looks into the first version folder in the order of names.
  const first = [...present].sort()[0];
  const files = first === undefined ? undefined : await versionFiles(join(directory, first));
  const polled = completeModelConfig(given, { name, files, gpus: options.gpus });
  checkModelConfig(polled, { name, gpus: options.gpus, withoutTensors: options.autoComplete, withoutInstances: true });
  try {
    const versions = selectVersions(polled, present);
    if (versions.length === 0) {
      const text = `at least one version must be available under the version policy of model '${name}'`;
      throw new NereidError('INVALID_ARG', text, { field: 'version_policy' });
    }
    const config = await completedByFiles(polled, directory, versions, options);
    const labels = await readLabels(config, directory);
    const { files: strategies, unused } = await strategyFiles(config, directory, versions);
    const beside = [...filesBeside(config), ...Object.values(strategies)];
    const hashes = await hashModelFiles({ directory, configFile, beside, versions });
    const source = { name, directory, config, labels, versions, ...hashes };
    return {
      ...source,
      ...(Object.keys(strategies).length === 0 ? {} : { strategies }),
      ...(unused === undefined ? {} : { warning: unused }),
    };
  } catch (error) {
    const { code, message, field } = errorInfo(error);
    const detail = { reason: LOAD_FAILED, cause: error };
    throw new NereidError(code, message, field === undefined ? detail : { ...detail, field });
  }
}

/** The config completed from and checked against the files of its versions. */
async function completedByFiles(
  polled: ModelConfig,
  directory: string,
  versions: readonly string[],
  options: ReadModelOptions,
): Promise<ModelConfig> {
  const graphs = await onnxGraphs(polled, directory, versions);
  let config = polled;
  const newest = graphs.at(-1);
  if (newest !== undefined && options.autoComplete) {
    const completed = completeFromOnnx(config, newest, options.defaultMaxBatchSize ?? DEFAULT_MAX_BATCH_SIZE);
    config = normaliseModelConfig(completed, options.gpus);
  }
  checkModelConfig(config, { name: config.name, gpus: options.gpus });
  // Made here for its range checks alone, so that requests meet no surprise.
  modelSignature(config);
  if (unsupportedReason(config) !== undefined) return config;
  if (config.output.length === 0) {
    const text = `model '${config.name}' must specify its 'output' in config.pbtxt`;
    throw new NereidError('INVALID_ARG', text, { field: 'output' });
  }
  for (const graph of graphs) checkOnnxGraph(config, graph);
  await checkInitialStates(config, directory);
  await checkWarmup(config, directory);
  return config;
}

/** What a config names of the model's folder. */
function filesBeside(config: ModelConfig): string[] {
  const labels = config.output.map((output) => output.labelFilename).filter((name) => name !== '');
  return unsupportedReason(config) === undefined
    ? [...labels, ...initialStateFiles(config), ...warmupFiles(config)]
    : labels;
}

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

/** Relative path of the config file, null for none where it may be completed. */
async function chooseConfigFile(directory: string, options: ReadModelOptions): Promise<string | null> {
  if (options.modelConfigName !== undefined && options.modelConfigName !== '') {
    const custom = `configs/${options.modelConfigName}.pbtxt`;
    if (await exists(pathInside(directory, custom, '--model-config-name'))) return custom;
  }
  return !options.autoComplete || (await exists(join(directory, CONFIG_FILE))) ? CONFIG_FILE : null;
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

async function readConfig(directory: string, file: string): Promise<ModelConfig> {
  const path = join(directory, file);
  return parseModelConfig(await readModelText(path, LIMITS.config_bytes_max), path);
}

async function versionFiles(folder: string): Promise<VersionFile[]> {
  try {
    const names = await readdir(folder);
    return await Promise.all(names.map(async (name) => ({ name, directory: await isFolder(join(folder, name)) })));
  } catch (error) {
    throw unreadable('version folder', folder, error);
  }
}

/** The graph of each version of an ONNX model, in their order; none for other backends. */
async function onnxGraphs(config: ModelConfig, directory: string, versions: readonly string[]): Promise<OnnxGraph[]> {
  const graphs: OnnxGraph[] = [];
  if (isEnsemble(config) || !FILE_BACKENDS.includes(config.backend)) return graphs;
  for (const version of versions) {
    let path = pathInside(join(directory, version), config.defaultModelFilename, 'default_model_filename');
    // A large ONNX model may be a folder with the file of that name and its weights.
    if (config.backend === 'onnxruntime' && (await isFolder(path))) path = join(path, 'model.onnx');
    if (!(await exists(path))) {
      throw new NereidError('UNAVAILABLE', `unable to find '${path}' for model '${config.name}' version ${version}`);
    }
    if (config.backend === 'onnxruntime') graphs.push(readOnnxFile(path));
  }
  return graphs;
}
