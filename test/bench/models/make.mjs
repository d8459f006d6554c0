#!/usr/bin/env node
/**
 * Writes the models that the bench serves, as a Triton model repository:
 *
 *   node test/bench/models/make.mjs DIR
 *
 * Two of them have weights that are made up from a seed: they compute what a net of their shape computes, and mean
 * nothing. The same bytes each time.
 */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../../deploy/setup/checkout.mjs';
import { FLOAT, onnxModel, onnxNode, onnxValue } from '../../../deploy/setup/onnx-parts.mjs';
import { isMain } from '../../../deploy/setup/setup.mjs';
import { MLPS, mlpModel } from './mlp.mjs';

/** 600 KB (614,400 bytes). */
export const LARGE_ELEMENTS = 153_600;
const SLEEP_MS = 10;

const tensors = (kind, entries) =>
  `${kind} [\n${entries.map(({ name, type, dims }) => `  { name: "${name}", data_type: ${type}, dims: [ ${dims} ] }`).join(',\n')}\n]\n`;

function config({ name, backend, maxBatchSize, inputs, outputs, batching = true, instances = 1 }) {
  return `name: "${name}"
backend: "${backend}"
max_batch_size: ${maxBatchSize}
${tensors('input', inputs)}${tensors('output', outputs)}${batching ? 'dynamic_batching { }\n' : ''}instance_group [ { count: ${instances}, kind: KIND_CPU } ]
`;
}

const fp32 = (name, dims) => ({ name, type: 'TYPE_FP32', dims });

function mlp(name) {
  const { sizes } = MLPS[name];
  const [inputs, outputs] = [[fp32('X', sizes[0])], [fp32('Y', sizes.at(-1))]];
  const note = `# Synthetic: the weights are made up from seed ${MLPS[name].seed}.\n`;
  return {
    file: 'model.onnx',
    content: mlpModel(name, MLPS[name]),
    config: note + config({ name, backend: 'onnxruntime', maxBatchSize: 16, inputs, outputs }),
  };
}

function identity600k() {
  const values = (name) => [onnxValue(name, FLOAT, ['batch', LARGE_ELEMENTS])];
  const nodes = [onnxNode('Identity', ['INPUT'], ['OUTPUT'])];
  const name = 'identity_600k';
  const io = { inputs: [fp32('INPUT', LARGE_ELEMENTS)], outputs: [fp32('OUTPUT', LARGE_ELEMENTS)] };
  return {
    file: 'model.onnx',
    content: onnxModel({ name, nodes, inputs: values('INPUT'), outputs: values('OUTPUT') }),
    config: config({ name, backend: 'onnxruntime', maxBatchSize: 8, batching: false, ...io }),
  };
}

/** One execution takes 10 ms whatever its batch, and no CPU: what is left is the server's own work. */
export function sleep10({ name = 'sleep10', maxBatchSize = 16, ...more } = {}) {
  const value = [{ name: 'VALUE', type: 'TYPE_INT32', dims: 1 }];
  return {
    file: 'model.mjs',
    content: `import { setTimeout as sleep } from 'node:timers/promises';

/** Sleeps ${SLEEP_MS} ms for the whole batch, then gives every value back. */
export async function execute(requests) {
  await sleep(${SLEEP_MS});
  return requests.map((request) => ({ outputs: { VALUE: request.inputs.get('VALUE') } }));
}
`,
    config: config({ name, backend: 'javascript', maxBatchSize, inputs: value, outputs: value, ...more }),
  };
}

/**
 * Writes all of them into a folder.
 *
 * @param {string} folder made where it is not there
 * @returns {readonly string[]} the models' names
 */
export function makeBenchModels(folder) {
  const made = {
    mlp: mlp('mlp'),
    mlp_1024x8: mlp('mlp_1024x8'),
    identity_600k: identity600k(),
    sleep10: sleep10(),
  };
  for (const [name, { file, content, config: text }] of Object.entries(made)) {
    mkdirSync(join(folder, name, '1'), { recursive: true });
    writeFileSync(join(folder, name, '1', file), content);
    writeFileSync(join(folder, name, 'config.pbtxt'), text);
  }
  // The recorded one, so that a figure and a recorded answer speak of the same model.
  cpSync(join(ROOT, 'test/conformance/repo/onnx/add_sub'), join(folder, 'add_sub'), { recursive: true });
  return [...Object.keys(made), 'add_sub'];
}

if (isMain(import.meta.url)) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) {
    console.error('say where the models go: node test/bench/models/make.mjs DIR');
    process.exitCode = 2;
  } else console.log(`${folder}: ${makeBenchModels(folder).join(', ')}`);
}
