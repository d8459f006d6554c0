import type { EnsembleStep } from './ensemble.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';

export type DecoupledFlow =
  | { readonly ok: true; readonly decoupled: boolean }
  | { readonly ok: false; readonly problem: string };

/**
 * Follows the answers of decoupled steps through the graph: each begins a flow of its own, and what a step takes must
 * come of one flow, since only then do its answers belong together one by one (core/src/ensemble_utils.cc,
 * ValidateEnsembleConfig). The ensemble's inputs are a flow too, and its outputs are taken as a step takes them. Triton
 * names the ensemble or a later step's model where this names the model of the step.
 */
export function decoupledFlow(
  ensemble: ModelConfig,
  steps: readonly EnsembleStep[],
  isDecoupled: (model: string) => boolean,
): DecoupledFlow {
  const flows = new Map(ensemble.input.map(({ name }) => [name, 0]));
  const flowsOf = (tensors: readonly string[]) => new Set(tensors.map((tensor) => flows.get(tensor)));
  const refuse = (model: string): DecoupledFlow => {
    const text = `in ensemble ${ensemble.name}, step of model '${model}' receives inputs originated from`;
    return { ok: false, problem: `${text} different decoupled models` };
  };
  let begun = 0;
  const isReady = ({ inputs }: EnsembleStep) => inputs.every(({ tensor }) => flows.has(tensor));
  for (let waiting = steps; waiting.length > 0; ) {
    const ready = waiting.filter(isReady);
    if (ready.length === 0) break;
    waiting = waiting.filter((step) => !isReady(step));
    for (const { model, inputs, outputs } of ready) {
      const [flow = 0, ...others] = flowsOf(inputs.map(({ tensor }) => tensor));
      if (others.length > 0) return refuse(model);
      if (isDecoupled(model)) begun++;
      for (const { tensor } of outputs) flows.set(tensor, isDecoupled(model) ? begun : flow);
    }
  }
  if (flowsOf(ensemble.output.map(({ name }) => name)).size > 1) return refuse(ensemble.name);
  return { ok: true, decoupled: begun > 0 };
}
