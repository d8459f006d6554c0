import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The model that the load asks: twice the value and one, and which process computed it. */
export const LOAD_MODEL = 'twice_and_one';
/** Twice that and one is an INT32. */
export const VALUE_MAX = 1_000_000_000;

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

export function writeLoadModel(folder) {
  mkdirSync(join(folder, LOAD_MODEL, '1'), { recursive: true });
  writeFileSync(join(folder, LOAD_MODEL, 'config.pbtxt'), CONFIG);
  writeFileSync(join(folder, LOAD_MODEL, '1', 'model.mjs'), SOURCE);
}

/** The request of one value, as JSON bodies and job data have it. */
export function requestOf(value) {
  return { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [value] }] };
}

/** The one number of a tensor, as JSON or, in jobs, base64. */
export function numberIn({ data, b64 }) {
  return data === undefined ? Buffer.from(b64, 'base64').readInt32LE(0) : data[0];
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
