import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A model that keeps, for each sequence, how many steps it has had and the sum of their values. */
export const SEQUENCE_MODEL = 'summed';
/** Sequences that one worker keeps. */
const SLOTS = 32;
const INSTANCES = 2;

/** A step with this value takes longer than an owner that is killed is without a successor: it is asked for again while it runs. */
export const LONG_VALUE = 999;
const LONG_MS = 2_600;

/** The state is what the server carries from step to step; the process is told too. */
const SOURCE = `
import { setTimeout } from 'node:timers/promises';
export async function execute(requests) {
  const isLong = requests.some(({ inputs }) => inputs.get('VALUE').data[0] === ${LONG_VALUE});
  await setTimeout(isLong ? ${LONG_MS} : 3);
  return requests.map((request) => {
    const [value] = request.inputs.get('VALUE').data;
    const [count, sum] = request.state.get('BEFORE').data;
    const state = new Int32Array([count + 1, sum + value]);
    return {
      outputs: {
        SUM: { datatype: 'INT32', shape: [1, 2], data: state },
        PID: { datatype: 'INT32', shape: [1, 1], data: new Int32Array([process.pid]) },
      },
      state: { AFTER: { datatype: 'INT32', shape: [1, 2], data: state } },
    };
  });
}
`;
const CONFIG = `name: "${SEQUENCE_MODEL}"
backend: "javascript"
max_batch_size: 8
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [
  { name: "SUM", data_type: TYPE_INT32, dims: [ 2 ] },
  { name: "PID", data_type: TYPE_INT32, dims: [ 1 ] }
]
instance_group [ { count: ${INSTANCES}, kind: KIND_CPU } ]
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  oldest { max_candidate_sequences: ${SLOTS / INSTANCES} }
  state [ {
    input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 2 ]
    initial_state: { name: "none", data_type: TYPE_INT32, dims: [ 2 ], zero_data: true }
  } ]
}
`;

export function writeSequenceModel(folder) {
  mkdirSync(join(folder, SEQUENCE_MODEL, '1'), { recursive: true });
  writeFileSync(join(folder, SEQUENCE_MODEL, 'config.pbtxt'), CONFIG);
  writeFileSync(join(folder, SEQUENCE_MODEL, '1', 'model.mjs'), SOURCE);
}

/** One step. `more` are further parameters. */
export function stepOf(sequenceId, value, { start, end }, more = {}) {
  return {
    parameters: { sequence_id: sequenceId, sequence_start: start, sequence_end: end, ...more },
    inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [value] }],
  };
}
