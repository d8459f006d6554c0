import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONFORMANCE } from '../conformance/selection.mjs';
import type { ModelFolder } from './model-folder.ts';
import { type Answer, infer } from './requests.ts';

export type Strategy = 'direct' | 'oldest';

export interface SequenceModel {
  readonly strategy: Strategy;
  readonly slots: number;
  readonly idleMs: number;
}

/** What a step says of its sequence. */
export interface StepFlags {
  readonly id?: number | string;
  readonly start?: boolean;
  readonly end?: boolean;
}

const control = (kind: string) =>
  `{ name: "${kind}", control [ { kind: CONTROL_SEQUENCE_${kind}, int32_false_true: [ 0, 1 ] } ] }`;

/**
 * Adds a model that answers each step with the sum of its sequence's values so far: the recorded cases' ONNX graph with
 * one instance of so many slots.
 */
export function addAccumulator(folder: ModelFolder, name: string, { strategy, slots, idleMs }: SequenceModel): void {
  cpSync(join(CONFORMANCE, 'repo', 'onnx', 'sequence_direct', '1'), join(folder.path, name, '1'), { recursive: true });
  writeFileSync(
    join(folder.path, name, 'config.pbtxt'),
    `name: "${name}"
backend: "onnxruntime"
max_batch_size: ${slots}
input [ { name: "INPUT", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "OUTPUT", data_type: TYPE_INT32, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
sequence_batching {
  max_sequence_idle_microseconds: ${idleMs * 1_000}
  control_input [
    ${control('START')},
    ${control('END')},
    ${control('READY')},
    { name: "CORRID", control [ { kind: CONTROL_SEQUENCE_CORRID, data_type: TYPE_UINT64 } ] }
  ]
  state [ { input_name: "STATE_IN", output_name: "STATE_OUT", data_type: TYPE_INT32, dims: [ 1 ] } ]
  ${strategy === 'direct' ? 'direct { }' : `oldest { max_candidate_sequences: ${slots} }`}
}
`,
  );
}

/** Adds a model that answers each step with the id that it is given as a string. */
export function addIdEcho(folder: ModelFolder, name: string): void {
  mkdirSync(join(folder.path, name, '1'), { recursive: true });
  writeFileSync(
    join(folder.path, name, '1', 'model.mjs'),
    'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get("ID") } }));',
  );
  writeFileSync(
    join(folder.path, name, 'config.pbtxt'),
    `name: "${name}"
backend: "javascript"
max_batch_size: 2
input [ { name: "INPUT", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "OUTPUT", data_type: TYPE_STRING, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
sequence_batching {
  control_input [ { name: "ID", control [ { kind: CONTROL_SEQUENCE_CORRID, data_type: TYPE_STRING } ] } ]
  oldest { max_candidate_sequences: 2 }
}
`,
  );
}

/** Asks one of them a step with these values, a row for each. */
export function step(http: string, model: string, values: readonly number[], flags: StepFlags = {}): Promise<Answer> {
  const { id, start, end } = flags;
  // What is undefined is not in the JSON.
  const parameters = { sequence_id: id, sequence_start: start, sequence_end: end };
  const inputs = [{ name: 'INPUT', datatype: 'INT32', shape: [values.length, 1], data: values }];
  return infer(http, model, JSON.stringify({ parameters, inputs }));
}

/** What `GET /nereid/v1/sequences` says of one. */
export interface LiveSequence {
  readonly sequence_id: number | string;
  readonly worker?: string;
  /** Its place among those that wait for a slot. */
  readonly backlog?: number;
}

/** The sequences of a model that live now, over the whole cluster. */
export async function liveSequences(http: string, model: string): Promise<readonly LiveSequence[]> {
  const answer = await fetch(`${http}/nereid/v1/sequences?model=${model}`);
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  const { sequences }: { sequences: readonly LiveSequence[] } = JSON.parse(text);
  return sequences;
}
