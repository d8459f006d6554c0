import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FLOAT, onnxModel, onnxNode, onnxTensor, onnxValue } from '../../../deploy/setup/onnx-parts.mjs';
import { randomValues } from './random.mjs';

const WIDTH = 1024;
/** Of 4 MiB each, as the weights of a net's layers are: blocks of tens of megabytes go back to the system anyhow. */
const LAYERS = 48;

/**
 * Writes a model of 200 MB (48 matrices of made-up weights, one behind the other) into a repository, with one instance
 * by the carrier.
 *
 * @param {'thread' | 'process'} carrier
 */
export function writeLargeModel(repository, name, carrier) {
  const weights = randomValues(1, WIDTH * WIDTH);
  const layers = Array.from({ length: LAYERS }, (_, layer) => layer);
  const output = (layer) => (layer === LAYERS - 1 ? 'Y' : `H${layer}`);
  const folder = join(repository, name);
  mkdirSync(join(folder, '1'), { recursive: true });
  writeFileSync(
    join(folder, '1', 'model.onnx'),
    onnxModel({
      name,
      nodes: layers.map((layer) =>
        onnxNode('MatMul', [layer === 0 ? 'X' : output(layer - 1), `W${layer}`], [output(layer)]),
      ),
      initializers: layers.map((layer) => onnxTensor(`W${layer}`, [WIDTH, WIDTH], weights)),
      inputs: [onnxValue('X', FLOAT, ['batch', WIDTH])],
      outputs: [onnxValue('Y', FLOAT, ['batch', WIDTH])],
    }),
  );
  writeFileSync(
    join(folder, 'config.pbtxt'),
    `name: "${name}"
backend: "onnxruntime"
max_batch_size: 4
instance_group [ { count: 1, kind: KIND_CPU } ]
parameters { key: "nereid.carrier" value { string_value: "${carrier}" } }
`,
  );
}
