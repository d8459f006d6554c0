import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { InferenceSession, Tensor } from 'onnxruntime-node';

const SLEEP_MS = 10;
const TYPES = { FP32: 'float32', INT32: 'int32', INT64: 'int64' };
const DATATYPES = { float32: 'FP32', int32: 'INT32', int64: 'INT64' };
/** As the models' one instance in Nereid and Triton has. */
const SESSION_OPTIONS = { intraOpNumThreads: 1, interOpNumThreads: 1 };

/**
 * The bench's models by name, each a function from tensors by name to tensors by name; a tensor is `{ datatype, shape,
 * values }` with a typed array.
 *
 * @param {string} folder the repository that make.mjs writes
 */
export async function loadModels(folder) {
  const entries = readdirSync(folder).map(async (name) => [name, await loadModel(folder, name)]);
  return new Map(await Promise.all(entries));
}

async function loadModel(folder, name) {
  if (name === 'sleep10') return sleepModel;
  const session = await InferenceSession.create(join(folder, name, '1', 'model.onnx'), SESSION_OPTIONS);
  return async (inputs) => {
    const feeds = {};
    for (const [key, { datatype, shape, values }] of Object.entries(inputs)) {
      feeds[key] = new Tensor(TYPES[datatype], values, shape);
    }
    const outputs = {};
    for (const [key, { type, dims, data }] of Object.entries(await session.run(feeds))) {
      outputs[key] = { datatype: DATATYPES[type], shape: dims, values: data };
    }
    return outputs;
  };
}

async function sleepModel(inputs) {
  await sleep(SLEEP_MS);
  return inputs;
}
