import { create } from '@bufbuild/protobuf';
import { NereidError } from '@nereid/protocol';
import { autoCompleteJavascript, mayAutoComplete } from './auto-complete-javascript.ts';
import { modelConfigChecks } from './check-model-config.ts';
import { checkOnnxGraph } from './check-onnx-graph.ts';
import { completeFromOnnx, DEFAULT_MAX_BATCH_SIZE } from './complete-from-onnx.ts';
import { completeModelConfig, normaliseModelConfig } from './complete-model-config.ts';
import type { ConfigText } from './config-positions.ts';
import { type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';
import { checkInitialStates, initialStateFiles } from './initial-state-files.ts';
import { hashModelFiles, readLabels } from './model-files.ts';
import { chooseConfigFile, firstVersionFiles, modelFile, modelVersions, readConfigText } from './model-folder.ts';
import { modelSignature } from './model-signature.ts';
import { type OnnxGraph, readOnnxFile } from './onnx-graph.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { parseModelConfigJson } from './parse-model-config-json.ts';
import type { ModelPlace, ModelSource, ReadModelOptions } from './read-model.ts';
import { runRepositoryAgents } from './repository-agents.ts';
import { selectVersions } from './select-versions.ts';
import { strategiesBeside, strategyFiles } from './strategy-files.ts';
import { unsupportedReason } from './unsupported-reason.ts';
import { checkWarmup, warmupFiles } from './warmup.ts';

/** What was thrown by a step, and the config's text where it was read. `loading`: after the versions were known. */
export interface Fault {
  readonly error: unknown;
  readonly text: ConfigText | undefined;
  readonly loading: boolean;
}

export interface Examination {
  /** Takes what a step has thrown: throws it on, or notes it and has the next step come. */
  readonly fault: (fault: Fault) => void;
  /** Takes what could not be looked at, and why. */
  readonly unchecked: (what: string) => void;
  /** Takes the config as it is written, before it is completed, and its text. */
  readonly given: (config: ModelConfig, text: ConfigText | undefined) => void;
}

/** The steps of one examination, each of which may fail for itself. */
interface Steps {
  text: ConfigText | undefined;
  loading: boolean;
  /** What the step returns; undefined where it failed and that was noted. */
  readonly attempt: <T>(step: () => T | Promise<T>) => Promise<T | undefined>;
}

function createSteps(take: Examination['fault']): Steps {
  const steps: Steps = {
    text: undefined,
    loading: false,
    async attempt(step) {
      try {
        return await step();
      } catch (error) {
        take({ error, text: steps.text, loading: steps.loading });
        return undefined;
      }
    },
  };
  return steps;
}

/**
 * Reads, completes and checks one model, step by step; undefined where a step failed without which there is no source.
 * An ONNX graph is read without its weights.
 */
export async function examineModel(
  place: ModelPlace,
  options: ReadModelOptions,
  examination: Examination,
): Promise<ModelSource | undefined> {
  const { name, directory } = place;
  const steps = createSteps(examination.fault);
  const { attempt } = steps;
  const present = await attempt(() => modelVersions(directory));
  const read = await attempt(() => configText(place, options));
  if (present === undefined || read === undefined) return undefined;
  steps.text = read.text;
  const files = await attempt(() => firstVersionFiles(directory, present));
  const polled = await attempt(() => {
    const given = parsed(read.text);
    examination.given(given, read.text);
    return completeModelConfig(given, { name, files, gpus: options.gpus });
  });
  if (polled === undefined) return undefined;
  // Before anything of the files is used, their code above all.
  const agreed = await attempt(async () => {
    await runRepositoryAgents(polled, directory);
    return true;
  });
  if (agreed === undefined) return undefined;
  const early = { name, gpus: options.gpus, withoutTensors: options.autoComplete, withoutInstances: true };
  for (const check of modelConfigChecks(polled, early)) await attempt(check);
  steps.loading = true;
  const versions = (await attempt(() => pickedVersions(polled, present))) ?? [];
  const config = await completedConfig(polled, place, versions, options, steps, examination);
  const labels = await attempt(() => readLabels(config, directory));
  const strategies = await attempt(() => strategyFiles(config, directory, versions));
  if (labels === undefined || strategies === undefined) return undefined;
  // By the config before code has completed it: who reads without running code comes to the same hash.
  const hashes = await attempt(async () => {
    const beside = [...filesBeside(polled), ...(await strategiesBeside(polled, directory, versions))];
    return hashModelFiles({ directory, configFile: read.file, configText: place.config?.text, beside, versions });
  });
  if (hashes === undefined) return undefined;
  const source = { name, directory, config, labels, versions, ...hashes };
  return {
    ...source,
    ...(Object.keys(strategies.files).length === 0 ? {} : { strategies: strategies.files }),
    ...(strategies.unused === undefined ? {} : { warning: strategies.unused }),
  };
}

/** The config's text, undefined for none, and the file that it is in, null for none. */
async function configText({ directory, config }: ModelPlace, options: ReadModelOptions) {
  if (config !== undefined) return { text: config, file: null };
  const choice = { configName: options.modelConfigName ?? '', mayLack: options.autoComplete };
  const file = await chooseConfigFile(directory, choice);
  return { text: file === null ? undefined : await readConfigText(directory, file), file };
}

function parsed(text: ConfigText | undefined): ModelConfig {
  if (text === undefined) return create(ModelConfigSchema);
  return (text.form === 'json' ? parseModelConfigJson : parseModelConfig)(text.text, text.source);
}

function pickedVersions(config: ModelConfig, present: readonly string[]): string[] {
  const versions = selectVersions(config, present);
  if (versions.length > 0) return versions;
  const has = present.length === 0 ? 'no version folder' : `version ${present.join(', ')}`;
  const text = `at least one version must be available under the version policy of model '${config.name}'; it has ${has}`;
  throw new NereidError('INVALID_ARG', text, { field: 'version_policy' });
}

/** The config completed from and checked against the files of its versions. */
async function completedConfig(
  polled: ModelConfig,
  { directory }: ModelPlace,
  versions: readonly string[],
  options: ReadModelOptions,
  { attempt }: Steps,
  examination: Examination,
): Promise<ModelConfig> {
  const files: string[] = [];
  const graphs: OnnxGraph[] = [];
  for (const version of versions) {
    const file = await attempt(() => modelFile(polled, directory, version));
    if (file !== undefined) files.push(file);
    const graph = await attempt(() => (file && polled.backend === 'onnxruntime' ? readOnnxFile(file) : undefined));
    if (graph !== undefined) graphs.push(graph);
  }
  const completed = await attempt(() => completeByFiles(polled, files, graphs, options));
  const config = completed?.config ?? polled;
  const isOpen = completed === undefined || completed.isOpen;
  if (completed?.isOpen === true) {
    examination.unchecked('inputs, outputs and what depends on them: its module may complete them, and was not run');
  }
  for (const check of modelConfigChecks(config, { name: config.name, gpus: options.gpus, withoutTensors: isOpen })) {
    await attempt(check);
  }
  if (isOpen) return config;
  // Made here for its range checks alone, so that requests meet no surprise.
  const signature = await attempt(() => modelSignature(config));
  if (signature === undefined || unsupportedReason(config) !== undefined) return config;
  await attempt(() => {
    if (config.output.length > 0) return;
    const text = `model '${config.name}' must specify its 'output' in config.pbtxt`;
    throw new NereidError('INVALID_ARG', text, { field: 'output' });
  });
  for (const graph of graphs) await attempt(() => checkOnnxGraph(config, graph));
  await attempt(() => checkInitialStates(config, directory));
  await attempt(() => checkWarmup(config, directory));
  return config;
}

/** `isOpen`: the model's code would complete it, and was not run. */
async function completeByFiles(
  polled: ModelConfig,
  files: readonly string[],
  graphs: readonly OnnxGraph[],
  options: ReadModelOptions,
): Promise<{ readonly config: ModelConfig; readonly isOpen: boolean }> {
  const kept = { config: polled, isOpen: false };
  // Triton completes by the version that is loaded last, and all are to fit it.
  const [newest, module] = [graphs.at(-1), files.at(-1)];
  if (!options.autoComplete) return kept;
  if (newest !== undefined) {
    const completed = completeFromOnnx(polled, newest, options.defaultMaxBatchSize ?? DEFAULT_MAX_BATCH_SIZE);
    return { config: normaliseModelConfig(completed, options.gpus), isOpen: false };
  }
  if (polled.backend !== 'javascript' || module === undefined || !(await mayAutoComplete(module))) return kept;
  if (options.runCode !== true) return { config: polled, isOpen: true };
  const completed = await autoCompleteJavascript(polled, module);
  return { config: normaliseModelConfig(completed, options.gpus), isOpen: false };
}

/** What a config names of the model's folder. */
function filesBeside(config: ModelConfig): string[] {
  const labels = config.output.map((output) => output.labelFilename).filter((name) => name !== '');
  return unsupportedReason(config) === undefined
    ? [...labels, ...initialStateFiles(config), ...warmupFiles(config)]
    : labels;
}
