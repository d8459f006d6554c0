/** The sample `silero_vad` as the bench serves it. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SAMPLES } from '../../../deploy/setup/checkout.mjs';

const NAME = 'silero_vad';
const MODEL = join(SAMPLES, NAME, '1', 'model.onnx');

/** Each request has the state that the last one gave: what other servers can serve, too. */
const STATELESS = `name: "${NAME}"
backend: "onnxruntime"
max_batch_size: 64
input [
  { name: "audio", data_type: TYPE_FP32, dims: [ 512 ] },
  { name: "state", data_type: TYPE_FP32, dims: [ 2, 128 ] },
  { name: "context", data_type: TYPE_FP32, dims: [ 64 ] }
]
output [
  { name: "output", data_type: TYPE_FP32, dims: [ 1 ] },
  { name: "next_state", data_type: TYPE_FP32, dims: [ 2, 128 ] },
  { name: "next_context", data_type: TYPE_FP32, dims: [ 64 ] }
]
dynamic_batching { }
instance_group [ { count: 1, kind: KIND_CPU } ]
`;

/** Adds it without sequences to a repository, where set-up has fetched it. */
export function addStatelessSilero(repository) {
  if (existsSync(MODEL)) add(repository, NAME, STATELESS);
}

/**
 * Adds it as it is shipped, but for the name and the largest batch.
 *
 * @throws {Error} where set-up has not fetched it
 */
export function addSequenceSilero(repository, { name, maxBatchSize }) {
  if (!existsSync(MODEL)) throw new Error('set-up fetches the model: npm run setup');
  const shipped = readFileSync(join(SAMPLES, NAME, 'config.pbtxt'), 'utf8');
  const config = shipped
    .replace(/^name: .*$/m, `name: "${name}"`)
    .replace(/^max_batch_size: .*$/m, `max_batch_size: ${maxBatchSize}`);
  add(repository, name, config);
}

function add(repository, name, config) {
  mkdirSync(join(repository, name, '1'), { recursive: true });
  copyFileSync(MODEL, join(repository, name, '1', 'model.onnx'));
  writeFileSync(join(repository, name, 'config.pbtxt'), config);
}
