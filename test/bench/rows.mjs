/** What is asked of each column: a model, its request and what the first answer must hold. */
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../deploy/setup/checkout.mjs';

const FLOAT_BYTES = 4;

/** Whatever waits goes together, 8 at most. */
const IN_BATCHES = `
backend: "onnxruntime"
max_batch_size: 8
input [{ name: "INPUT", data_type: TYPE_FP32, dims: [ -1, 2 ] }]
output [{ name: "OUTPUT", data_type: TYPE_FP32, dims: [ -1, 2 ] }]
instance_group [{ count: 1, kind: KIND_CPU }]
dynamic_batching {}
`;

/**
 * The rows by name. `model` is a folder of the recorded ONNX repository, `config` its configuration where it is to be
 * another. Triton serves the same in Python where `triton` says so.
 */
export const ROWS = {
  add_sub: {
    model: 'add_sub',
    config: undefined,
    triton: true,
    inputs: [
      ['INPUT0', [4], [1, 2, 3, 4]],
      ['INPUT1', [4], [5, 6, 7, 8]],
    ],
    expect: 'OUTPUT0',
  },
  batches: {
    model: 'identity_batched_fp32',
    config: IN_BATCHES,
    triton: false,
    inputs: [['INPUT', [1, 2, 2], [1, 2, 3, 4]]],
    expect: 'OUTPUT',
  },
};

/** Makes a repository of the row's model. */
export function writeModel(row, repository) {
  const model = join(repository, row.model);
  cpSync(join(ROOT, 'test/conformance/repo/onnx', row.model), model, { recursive: true });
  if (row.config !== undefined) writeFileSync(join(model, 'config.pbtxt'), row.config);
}

/** Writes the row's body (HTTP binary, FP32) into the folder; the load generator sends it as it is. */
export function writeRequest(row, folder) {
  const header = JSON.stringify({
    inputs: row.inputs.map(([name, shape, values]) => ({
      name,
      shape,
      datatype: 'FP32',
      parameters: { binary_data_size: values.length * FLOAT_BYTES },
    })),
    parameters: { binary_data_output: true },
  });
  const tensors = row.inputs.map(([, , values]) => Buffer.from(Float32Array.from(values).buffer));
  const body = join(folder, `${row.model}.bin`);
  writeFileSync(body, Buffer.concat([Buffer.from(header), ...tensors]));
  return {
    path: `/v2/models/${row.model}/infer`,
    headers: [`Inference-Header-Content-Length: ${header.length}`],
    body,
    expect: row.expect,
  };
}
