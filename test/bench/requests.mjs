import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { inputsOf, outputsOf } from './models/inputs.mjs';

/** Different inputs per row: what depends on the values, or on the last request, shows. */
const SEEDS = 16;
const TYPES = { FP32: 'float32', INT64: 'int64' };
const SESSION_OPTIONS = { intraOpNumThreads: 1, interOpNumThreads: 1 };

/**
 * A model's requests: inputs and what must be answered, computed here or, where it is a large net, by onnxruntime one at
 * a time.
 *
 * @param {string} models the repository
 * @returns {Promise<{ seed: number, inputs: object[], outputs: object[] }[]>}
 */
export async function samplesOf(models, model) {
  const all = Array.from({ length: SEEDS }, (_, seed) => {
    const inputs = inputsOf(model, seed);
    return { seed, inputs, outputs: outputsOf(model, inputs) };
  });
  if (all[0].outputs !== undefined) return all;
  const session = await InferenceSession.create(join(models, model, '1', 'model.onnx'), SESSION_OPTIONS);
  for (const sample of all) {
    const feeds = sample.inputs.map(({ name, datatype, shape, values }) => [
      name,
      new Tensor(TYPES[datatype], values, shape),
    ]);
    const outputs = await session.run(Object.fromEntries(feeds));
    sample.outputs = Object.entries(outputs).map(([name, { data }]) => ({ name, values: data.slice() }));
  }
  await session.release();
  return all;
}

/**
 * The requests of one column in one cell, with their bodies in files for the load generator.
 *
 * @param {string} folder where the files go
 */
export function writeRequests({ column, row, encoding, samples, folder }) {
  mkdirSync(folder, { recursive: true });
  const asked = samples.map(({ seed, outputs }) =>
    column.request({ model: row.model, jobs: row.jobs, encoding, seed, outputs }),
  );
  const [{ mode, path, headers, follow }] = asked;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const other = asked.find((each) => JSON.stringify([each.path, each.headers]) !== JSON.stringify([path, headers]));
  if (other !== undefined) throw new Error(`${column.name}: the headers of ${row.model} differ by request`);
  const bodies = asked.map(({ body }, index) => {
    const file = join(folder, `${column.name.replaceAll(':', '-')}-${encoding}-${index}`);
    writeFileSync(file, body);
    return file;
  });
  return { mode, path, headers: lines, follow, bodies, checks: asked.map(({ check }) => check) };
}
