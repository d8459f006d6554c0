import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { numbersIn } from './load-model.mjs';

/** Answers twice the value and one, how many rows it had run before, and which execution of its instance this is. */
export const ORDER_MODEL = 'order';

const SOURCE = `
let rows = 0;
let moment = 0;
export function execute(requests) {
  moment += 1;
  return requests.map(({ inputs }) => {
    const [value] = inputs.get('VALUE').data;
    const data = Int32Array.of(value * 2 + 1, rows, moment);
    rows += 1;
    return { outputs: { ANSWER: { datatype: 'INT32', shape: [1, 3], data } } };
  });
}
`;
const CONFIG = `name: "${ORDER_MODEL}"
backend: "javascript"
max_batch_size: 8
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "ANSWER", data_type: TYPE_INT32, dims: [ 3 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
dynamic_batching { }
`;

export function writeOrderModel(folder) {
  mkdirSync(join(folder, ORDER_MODEL, '1'), { recursive: true });
  writeFileSync(join(folder, ORDER_MODEL, 'config.pbtxt'), CONFIG);
  writeFileSync(join(folder, ORDER_MODEL, '1', 'model.mjs'), SOURCE);
}

/** What an answer in JSON, or a job's return value, says. */
export function orderIn(response) {
  const [doubled, row, moment] = numbersIn(response.outputs[0]);
  return { value: (doubled - 1) / 2, row, moment };
}
