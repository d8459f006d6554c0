import { cachesDecoupled } from './check-model-config.ts';
import { type EnsembleSignature, ensembleModels, ensembleSignature } from './ensemble.ts';
import { decoupledFlow } from './ensemble-decoupled.ts';
import { createEnsembleTensors } from './ensemble-tensors.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import type { ModelRecord } from './model-record.ts';

/** What is known of a model; undefined for one that nobody serves or has tried to. */
export type FindModel = (model: string) => ModelRecord | undefined;

/**
 * Why an ensemble cannot be served with the models that its steps name, in Triton's words, or undefined. By configs alone:
 * whether the models are loaded is for `ensembleReadiness` to say, and is asked first, as the config of a model whose
 * files are at fault is not known. Takes a checked config (core/src/ensemble_utils.cc, ValidateEnsembleConfig; of circles
 * and unknown models model_repository_manager.cc, ConnectDependencyGraph and CircularDependencyCheck).
 */
export function checkEnsembleModels(config: ModelConfig, find: FindModel): string | undefined {
  const examined = examine(config, find, new Map(), 1);
  return examined.ok ? undefined : examined.problem;
}

/** Whether an ensemble gives any number of answers: one of its steps does. False too where it cannot be served. */
export function isDecoupledEnsemble(config: ModelConfig, find: FindModel): boolean {
  const examined = examine(config, find, new Map(), 1);
  return examined.ok && examined.decoupled;
}

type Examined = { readonly ok: true; readonly decoupled: boolean } | { readonly ok: false; readonly problem: string };

const TOO_DEEP = `ensembles must not be nested more than ${LIMITS.ensemble_depth_max} deep`;

/** `known` has the ensembles of this examination that are done, so that one used by many is examined once. */
function examine(config: ModelConfig, find: FindModel, known: Map<string, Examined>, depth: number): Examined {
  const graph = ensembleSignature(config);
  if (graph === undefined) return { ok: true, decoupled: config.modelTransactionPolicy?.decoupled ?? false };
  const done = known.get(config.name);
  if (done !== undefined) return done;
  const examined =
    depth > LIMITS.ensemble_depth_max ? refusal(TOO_DEEP) : examineGraph(config, graph, find, known, depth);
  known.set(config.name, examined);
  return examined;
}

function examineGraph(
  config: ModelConfig,
  graph: EnsembleSignature,
  find: FindModel,
  known: Map<string, Examined>,
  depth: number,
): Examined {
  const { name } = config;
  const unconnected = unknownModels(config, find) ?? ensembleCircle(config, find);
  if (unconnected !== undefined) return refusal(unconnected);
  const configs = new Map<string, ModelConfig>();
  const decoupled = new Set<string>();
  for (const model of ensembleModels(config)) {
    const composing = find(model)?.config;
    if (composing === undefined) continue;
    configs.set(model, composing);
    const inner = examine(composing, find, known, depth + 1);
    if (!inner.ok && inner.problem === TOO_DEEP) return inner;
    if (!inner.ok) {
      const text = `ensemble '${name}' depends on '${model}' which is not valid.`;
      return refusal(`${text} Model '${model}' failed with error: ${inner.problem}`);
    }
    if (inner.decoupled) decoupled.add(model);
  }
  const unfit = unfitStep(config, graph, configs);
  if (unfit !== undefined) return refusal(unfit);
  const flow = decoupledFlow(config, graph.steps, (model) => decoupled.has(model));
  if (flow.ok && flow.decoupled && config.responseCache?.enable === true) return refusal(cachesDecoupled(name));
  return flow;
}

function refusal(problem: string): Examined {
  return { ok: false, problem };
}

/** Those of which nothing is known, or of whose files nothing could be read. */
function unknownModels(config: ModelConfig, find: FindModel): string | undefined {
  const unknown = ensembleModels(config).filter((model) => {
    const found = find(model)?.config;
    return model !== config.name && (found === undefined || (found.backend === '' && found.platform === ''));
  });
  if (unknown.length === 0) return undefined;
  return `ensemble ${config.name} contains models that are not available or ambiguous: ${unknown.join(', ')}`;
}

/** Triton's text of a circle that the ensemble is in; one that it leads into is told of the ensembles there. */
export function ensembleCircle(config: ModelConfig, find: FindModel): string | undefined {
  const { name } = config;
  const within = new Set([name]);
  // The set grows while it is walked.
  for (const model of within) {
    const composing = model === name ? config : find(model)?.config;
    const models = composing === undefined ? [] : ensembleModels(composing);
    if (models.includes(name)) return `circular dependency between ensembles: ${name} -> ... -> ${model} -> ${name}`;
    for (const each of models) within.add(each);
  }
  return undefined;
}

function unfitStep(
  config: ModelConfig,
  { steps }: EnsembleSignature,
  configs: ReadonlyMap<string, ModelConfig>,
): string | undefined {
  const tensors = createEnsembleTensors(config);
  for (const step of steps) {
    const model = configs.get(step.model);
    if (model === undefined) continue;
    // One without batches takes the batch dimension for its own, as far as the shapes allow.
    if (model.maxBatchSize !== 0 && model.maxBatchSize < config.maxBatchSize) {
      const allows = `ensemble ${config.name} allows maximum batch size ${config.maxBatchSize}`;
      const only = `which only allows maximum batch size to be ${model.maxBatchSize}`;
      return `${allows}, but it contains model ${step.model} ${only}`;
    }
    const problem = tensors.add(step, model);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
