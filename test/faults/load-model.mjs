import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The model that the load asks: twice the value and one, and which process computed it. */
export const LOAD_MODEL = 'twice_and_one';
/** Four times that and three is an INT32. */
export const VALUE_MAX = 500_000_000;

const SOURCE = `
import { setTimeout } from 'node:timers/promises';
export async function execute(requests) {
  await setTimeout(5);
  return requests.map((request) => {
    const [value] = request.inputs.get('VALUE').data;
    const one = (number) => ({ datatype: 'INT32', shape: [1, 1], data: new Int32Array([number]) });
    return { outputs: { VALUE: one(value * 2 + 1), PID: one(process.pid) } };
  });
}
`;
const CONFIG = `name: "${LOAD_MODEL}"
backend: "javascript"
max_batch_size: 4
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] }, { name: "PID", data_type: TYPE_INT32, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
dynamic_batching { }
`;

/** Each element plus one: of tensors that travel beside their messages. */
export const LARGE_MODEL = 'large';
export const LARGE_ELEMENTS = 16_384;
const LARGE_SOURCE = `
export function execute(requests) {
  return requests.map((request) => {
    const { data, shape } = request.inputs.get('LARGE');
    return { outputs: { LARGE: { datatype: 'INT32', shape, data: data.map((element) => element + 1) } } };
  });
}
`;
const LARGE_CONFIG = `name: "${LARGE_MODEL}"
backend: "javascript"
input [ { name: "LARGE", data_type: TYPE_INT32, dims: [ ${LARGE_ELEMENTS} ] } ]
output [ { name: "LARGE", data_type: TYPE_INT32, dims: [ ${LARGE_ELEMENTS} ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
`;

/** Each made of two steps of the one above, so that tensors of both sizes pass from step to step. */
export const PIPELINE_MODEL = 'twice_and_one_twice';
export const LARGE_PIPELINE_MODEL = 'large_twice';
const pipelineConfig = (name, model, tensor, dims, maxBatchSize) => `name: "${name}"
platform: "ensemble"
max_batch_size: ${maxBatchSize}
input [ { name: "GIVEN", data_type: TYPE_INT32, dims: [ ${dims} ] } ]
output [ { name: "${tensor}", data_type: TYPE_INT32, dims: [ ${dims} ] } ]
ensemble_scheduling {
  step {
    model_name: "${model}" model_version: -1
    input_map { key: "${tensor}" value: "GIVEN" } output_map { key: "${tensor}" value: "between" }
  }
  step {
    model_name: "${model}" model_version: -1
    input_map { key: "${tensor}" value: "between" } output_map { key: "${tensor}" value: "${tensor}" }
  }
}
`;

export function writeLoadModels(folder) {
  for (const [name, config, source] of [
    [LOAD_MODEL, CONFIG, SOURCE],
    [LARGE_MODEL, LARGE_CONFIG, LARGE_SOURCE],
  ]) {
    mkdirSync(join(folder, name, '1'), { recursive: true });
    writeFileSync(join(folder, name, 'config.pbtxt'), config);
    writeFileSync(join(folder, name, '1', 'model.mjs'), source);
  }
  for (const [name, config] of [
    [PIPELINE_MODEL, pipelineConfig(PIPELINE_MODEL, LOAD_MODEL, 'VALUE', 1, 4)],
    [LARGE_PIPELINE_MODEL, pipelineConfig(LARGE_PIPELINE_MODEL, LARGE_MODEL, 'LARGE', LARGE_ELEMENTS, 0)],
  ]) {
    mkdirSync(join(folder, name, '1'), { recursive: true });
    writeFileSync(join(folder, name, 'config.pbtxt'), config);
  }
}

/** The request of one value, as JSON bodies and job data have it. */
export function requestOf(value) {
  return { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [value] }] };
}

/** The numbers of a tensor of INT32, as JSON or, in jobs, base64. */
export function numbersIn({ data, b64 }) {
  if (data !== undefined) return data;
  const bytes = Buffer.from(b64, 'base64');
  return Array.from({ length: bytes.byteLength / 4 }, (_, index) => bytes.readInt32LE(index * 4));
}

/** The one number of a tensor. */
export function numberIn(tensor) {
  return numbersIn(tensor)[0];
}

/** What an answer in JSON, or a job's return value, says; undefined where it is none. */
export function answerIn(response) {
  if (!Array.isArray(response?.outputs)) return undefined;
  const outputs = new Map(response.outputs.map((tensor) => [tensor.name, numberIn(tensor)]));
  return { value: outputs.get('VALUE'), pid: outputs.get('PID') };
}

export function isRight(answer, value) {
  return answer !== undefined && answer.value === value * 2 + 1 && Number.isInteger(answer.pid);
}
