/** For tests: ensembles over models of one input A and one output B. */
import { type ModelSource, parseModelConfig } from '@nereid/config';
import { fakeModel } from './fake-cluster.ts';

/** `A>a>x` is a step of model a that takes A and gives x. */
export type FakeStep = `${string}>${string}>${string}`;

/** An ensemble from A to B, or to those outputs. */
export function fakeEnsemble(
  name: string,
  steps: readonly FakeStep[],
  more = '',
  outputs: readonly string[] = ['B'],
): ModelSource {
  const tensor = (tensorName: string) => `{ name: "${tensorName}" data_type: TYPE_FP32 dims: [ -1 ] }`;
  const list = steps.map((step) => {
    const [input, model, output] = step.split('>');
    const maps = `input_map { key: "A" value: "${input}" } output_map { key: "B" value: "${output}" }`;
    return `step { model_name: "${model}" model_version: -1 ${maps} }`;
  });
  const text = `name: "${name}" platform: "ensemble" input ${tensor('A')} ${outputs
    .map((output) => `output ${tensor(output)}`)
    .join(' ')} ensemble_scheduling { ${list.join(' ')} ${more} }`;
  return { ...fakeModel(name), config: parseModelConfig(text, 'config.pbtxt') };
}
