/** What is asked of each column: a model, its request and what the first answer must hold. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FLOAT_BYTES = 4;

/** The rows by name. `model` is a folder of the recorded ONNX repository; Triton serves the same in Python. */
export const ROWS = {
  add_sub: {
    model: 'add_sub',
    inputs: [
      ['INPUT0', [1, 2, 3, 4]],
      ['INPUT1', [5, 6, 7, 8]],
    ],
    expect: 'OUTPUT0',
  },
};

/** Writes the row's body (HTTP binary, FP32) into the folder; the load generator sends it as it is. */
export function writeRequest(row, folder) {
  const header = JSON.stringify({
    inputs: row.inputs.map(([name, values]) => ({
      name,
      shape: [values.length],
      datatype: 'FP32',
      parameters: { binary_data_size: values.length * FLOAT_BYTES },
    })),
    parameters: { binary_data_output: true },
  });
  const tensors = row.inputs.map(([, values]) => Buffer.from(Float32Array.from(values).buffer));
  const body = join(folder, `${row.model}.bin`);
  writeFileSync(body, Buffer.concat([Buffer.from(header), ...tensors]));
  return {
    path: `/v2/models/${row.model}/infer`,
    headers: [`Inference-Header-Content-Length: ${header.length}`],
    body,
    expect: row.expect,
  };
}
