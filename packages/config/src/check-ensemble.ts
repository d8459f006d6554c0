import { type ConfigCheck, mapEntry, refuseField } from './config-fault.ts';
import { type EnsembleSignature, type EnsembleStep, ensembleSignature } from './ensemble.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';

/**
 * The rules of an ensemble's own config (core/src/model_config_utils.cc, ValidateEnsembleSchedulingConfig and
 * BuildEnsembleGraph), and that no step writes an input of the ensemble, which Triton lets pass and whose requests it
 * never answers. What its models are is for `checkEnsembleModels`.
 */
export function ensembleChecks(config: ModelConfig): ConfigCheck[] {
  return [() => checkKind(config), () => checkGraph(config)];
}

function checkKind(config: ModelConfig): void {
  const { name } = config;
  const graph = ensembleSignature(config);
  if (graph === undefined) {
    const text = `ensemble scheduling must be set for ensemble ${name} whose platform is ensemble`;
    refuseField('ensemble_scheduling', text);
  }
  if (config.platform !== 'ensemble') {
    const text = `ensemble scheduling cannot be set for model '${name}' whose platform is not ensemble`;
    refuseField('platform', text);
  }
  if (config.instanceGroup.length > 0) {
    refuseField('instance_group', `instance group should not be specified for ensemble '${name}'`);
  }
  if (config.optimization !== undefined) {
    refuseField('optimization', `optimization should not be specified for ensemble '${name}'`);
  }
  if (config.modelWarmup.length > 0) {
    refuseField('model_warmup', `model_warmup can not be specified for ensemble '${name}'`);
  }
}

const PATH = 'ensemble_scheduling.step';

/** The second is of use only where the first holds. */
function checkGraph(config: ModelConfig): void {
  const graph = ensembleSignature(config);
  if (graph === undefined) return;
  checkSteps(config, graph);
  checkFlow(config, graph);
}

function checkSteps({ name, input }: ModelConfig, { steps }: EnsembleSignature): void {
  if (steps.length === 0) refuseField('ensemble_scheduling', `must specify 'step' for ensemble '${name}'`);
  if (steps.length > LIMITS.ensemble_steps_max) {
    refuseField(
      'ensemble_scheduling',
      `ensemble '${name}' has ${steps.length} steps, more than ${LIMITS.ensemble_steps_max}`,
    );
  }
  const given = new Set(input.map((tensor) => tensor.name));
  const written = new Set<string>();
  for (const [index, { model, inputs, outputs }] of steps.entries()) {
    const where = `in step ${index} of ensemble '${name}'`;
    if (model === '') refuseField(`${PATH}[${index}]`, `must specify 'model_name' ${where}`);
    if (inputs.length === 0) refuseField(`${PATH}[${index}]`, `must specify 'input_map' ${where}`);
    if (outputs.length === 0) refuseField(`${PATH}[${index}]`, `must specify 'output_map' ${where}`);
    for (const { name: output, tensor } of outputs) {
      const path = mapEntry(`${PATH}[${index}].output_map`, output);
      if (written.has(tensor)) {
        const text = `ensemble tensor '${tensor}' can appear in an output map only once for ensemble '${name}'`;
        refuseField(path, `${text} step ${index}`);
      }
      if (given.has(tensor)) {
        const fix = 'give the tensor that the step writes another name';
        refuseField(path, `ensemble input '${tensor}' is also written ${where}; ${fix}`);
      }
      written.add(tensor);
    }
  }
}

/** Every tensor has a source that can be reached from the inputs, and somebody who needs it. */
function checkFlow(config: ModelConfig, { steps }: EnsembleSignature): void {
  const { name } = config;
  const read = new Set(steps.flatMap(({ inputs }) => inputs.map(({ tensor }) => tensor)));
  const tensors = new Set(steps.flatMap(({ inputs, outputs }) => [...inputs, ...outputs].map(({ tensor }) => tensor)));
  for (const [index, input] of config.input.entries()) {
    if (!tensors.has(input.name))
      refuseField(`input[${index}]`, `ensemble input '${input.name}' for ensemble ${name}' is not used`);
  }
  const reached = reachable(config, steps);
  const outputs = new Set<string>();
  for (const [index, output] of config.output.entries()) {
    if (!tensors.has(output.name)) {
      refuseField(`output[${index}]`, `ensemble output '${output.name}' for ensemble ${name}' is not used`);
    }
    if (!reached.has(output.name)) {
      const text = `output '${output.name}' for ensemble '${name}' is not written`;
      refuseField(`output[${index}]`, `${text}${notConnected(output.name, steps, reached)}`);
    }
    outputs.add(output.name);
  }
  for (const tensor of tensors) {
    if (outputs.has(tensor) || (reached.has(tensor) && read.has(tensor))) continue;
    refuseField(stepOf(tensor, steps), `ensemble tensor '${tensor}' is unused in ensemble '${name}'`);
  }
}

/** The tensors that come to be once the inputs are there; those of a circle never do. */
function reachable({ input }: ModelConfig, steps: EnsembleSignature['steps']): ReadonlySet<string> {
  const reached = new Set(input.map((tensor) => tensor.name));
  const isReady = ({ inputs }: EnsembleStep) => inputs.every(({ tensor }) => reached.has(tensor));
  for (let waiting = steps; ; ) {
    const ready = waiting.filter(isReady);
    if (ready.length === 0) return reached;
    waiting = waiting.filter((step) => !isReady(step));
    for (const { outputs } of ready) for (const { tensor } of outputs) reached.add(tensor);
  }
}

function notConnected(output: string, steps: EnsembleSignature['steps'], reached: ReadonlySet<string>): string {
  const writer = steps.find(({ outputs }) => outputs.some(({ tensor }) => tensor === output));
  const missing = writer?.inputs.find(({ tensor }) => !reached.has(tensor));
  return missing === undefined ? '' : `: at least one of its depending tensors, '${missing.tensor}', is not connected`;
}

/** Where a tensor stands first. */
function stepOf(tensor: string, steps: EnsembleSignature['steps']): string {
  for (const [index, { inputs, outputs }] of steps.entries()) {
    const read = inputs.find((each) => each.tensor === tensor);
    if (read !== undefined) return mapEntry(`${PATH}[${index}].input_map`, read.name);
    const written = outputs.find((each) => each.tensor === tensor);
    if (written !== undefined) return mapEntry(`${PATH}[${index}].output_map`, written.name);
  }
  return PATH;
}
