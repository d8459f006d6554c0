import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ModelFolder } from './model-folder.ts';

/** `x,y>model>z`: a step whose model takes the tensors x and y as VALUE and OTHER, and gives z as VALUE. */
export type StepText = `${string}>${string}>${string}`;

export interface EnsembleOptions {
  /** `OUT` by default. */
  readonly outputs?: readonly string[];
  /** The one dimension of each tensor beside that of the batch, 1 by default. */
  readonly dims?: number;
  readonly maxBatchSize?: number;
  /** More of `ensemble_scheduling`. */
  readonly more?: string;
}

const INPUTS = ['VALUE', 'OTHER'];

/** Adds an ensemble of INT32 models from VALUE to OUT, or to other outputs. */
export function addEnsemble(
  folder: ModelFolder,
  name: string,
  steps: readonly StepText[],
  options: EnsembleOptions = {},
): void {
  const { outputs = ['OUT'], dims = 1, maxBatchSize = 0, more = '' } = options;
  const list = steps.map((step) => {
    const [takes = '', model, gives = ''] = step.split('>');
    const inputs = takes.split(',').map((tensor, index) => `input_map { key: "${INPUTS[index]}" value: "${tensor}" }`);
    return `step { model_name: "${model}" model_version: -1 ${inputs.join(' ')} output_map { key: "VALUE" value: "${gives}" } }`;
  });
  const tensor = (tensorName: string) => `{ name: "${tensorName}", data_type: TYPE_INT32, dims: [ ${dims} ] }`;
  mkdirSync(join(folder.path, name, '1'), { recursive: true });
  writeFileSync(
    join(folder.path, name, 'config.pbtxt'),
    `name: "${name}"
platform: "ensemble"
max_batch_size: ${maxBatchSize}
input [ ${tensor('VALUE')} ]
output [ ${outputs.map(tensor).join(', ')} ]
ensemble_scheduling { ${list.join('\n')} ${more} }
`,
  );
}

/** Adds a model that takes VALUE and OTHER and gives `VALUE * 1000 + OTHER`, batched. */
export function addPairing(folder: ModelFolder, name: string): void {
  folder.addJavaScript(
    name,
    `export const execute = (requests) => requests.map(({ inputs }) => {
       const [value, other] = [inputs.get('VALUE'), inputs.get('OTHER')];
       return { outputs: { VALUE: { ...value, data: value.data.map((each, index) => each * 1000 + other.data[index]) } } };
     });`,
    'input [ { name: "OTHER", data_type: TYPE_INT32, dims: [ 1 ] } ] dynamic_batching { }',
    { maxBatchSize: 8 },
  );
}
