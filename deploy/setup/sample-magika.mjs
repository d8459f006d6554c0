import { copyFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './checkout.mjs';
import { checkSha256, fetchWheel, unpackWheel } from './sample-packages.mjs';

const WHEEL = {
  requirement: 'magika==1.0.3',
  file: 'magika-1.0.3-py3-none-any.whl',
  sha256: '938d8e033953f2ddeb8c35dc423aa289ca116bfa7a71a778f6e77460f9025803',
  size: '3 MB',
};
const MODEL = 'magika/models/standard_v3_3/model.onnx';
const MODEL_SHA256 = 'fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c';
const MODEL_SETTINGS = 'magika/models/standard_v3_3/config.min.json';

const CONFIG = `name: "magika"
backend: "onnxruntime"
max_batch_size: 8
input [
  { name: "bytes", data_type: TYPE_INT32, dims: [ 2048 ] }
]
output [
  { name: "target_label", data_type: TYPE_FP32, dims: [ 214 ], label_filename: "labels.txt" }
]
instance_group [ { count: 1, kind: KIND_CPU } ]
`;

const NOTICE = `The weights in 1/model.onnx and the names in labels.txt come from the Python package ${WHEEL.requirement}
(model standard_v3_3), Copyright Google LLC, licensed under the Apache License 2.0 (see LICENSE).
`;

/** A classifier of file types. */
export const MAGIKA = {
  name: 'magika',
  needsPython: true,
  pins: [CONFIG, NOTICE, WHEEL.sha256, MODEL_SHA256],

  /** Writes the model folder. Throws SetupError where it cannot be fetched. */
  async make({ model, scratch, python }) {
    await unpackWheel(await fetchWheel(WHEEL, python), [MODEL, MODEL_SETTINGS], scratch, python);
    checkSha256(join(scratch, MODEL), MODEL_SHA256);
    mkdirSync(join(model, '1'), { recursive: true });
    renameSync(join(scratch, MODEL), join(model, '1', 'model.onnx'));
    const labels = JSON.parse(readFileSync(join(scratch, MODEL_SETTINGS), 'utf8')).target_labels_space;
    writeFileSync(join(model, 'labels.txt'), `${labels.join('\n')}\n`);
    writeFileSync(join(model, 'config.pbtxt'), CONFIG);
    writeFileSync(join(model, 'NOTICE'), NOTICE);
    copyFileSync(join(ROOT, 'LICENSE'), join(model, 'LICENSE'));
  },
};
