import { describe, expect, test } from 'vitest';
import { checkModelConfig } from './check-model-config.ts';
import { completeModelConfig } from './complete-model-config.ts';
import { parseModelConfig } from './parse-model-config.ts';

const IO = 'input { name: "I" data_type: TYPE_FP32 dims: 4 } output { name: "O" data_type: TYPE_FP32 dims: 4 }';

function refusal(
  batching: string,
  rest = 'max_batch_size: 4',
  machine: { gpus: number | undefined } = { gpus: 0 },
): string {
  const text = `${IO} ${rest} sequence_batching { ${batching} }`;
  const { gpus } = machine;
  const files = [{ name: 'model.onnx', directory: false }];
  const config = completeModelConfig(parseModelConfig(text, 'config.pbtxt'), { name: 'm', files, gpus });
  try {
    checkModelConfig(config, { name: 'm', gpus });
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG', field: expect.any(String) });
    return error instanceof Error ? error.message : '';
  }
  return 'accepted';
}

const start = (values = 'int32_false_true: [ 0, 1 ]', name = 'START') =>
  `control_input { name: "${name}" control { kind: CONTROL_SEQUENCE_START ${values} } }`;
const id = (body: string) => `control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID ${body} } }`;
const state = (body = '', dims = 'dims: [ 2, -1 ]') =>
  `state { input_name: "S" output_name: "T" data_type: TYPE_INT32 ${dims} ${body} }`;
const initial = (body: string) => state(`initial_state { name: "zero" data_type: TYPE_INT32 dims: [ 2, 3 ] ${body} }`);
const ZERO = 'zero_data: true';
const GPU = 'instance_group { kind: KIND_GPU }';

describe('accepted', () => {
  test.each([
    ['nothing but the field', ''],
    ['each strategy', `direct { minimum_slot_utilization: 0.5 max_queue_delay_microseconds: 10 }`],
    ['oldest', `oldest { max_candidate_sequences: 1024 preferred_batch_size: [ 2, 4 ] }`],
    ['flags of each datatype', `${start()} ${start('', 'X').replace('START ', 'END fp32_false_true: [ 0, 1 ]')}`],
    ['bools', start('bool_false_true: [ false, true ]')],
    ...['UINT64', 'INT64', 'UINT32', 'INT32', 'STRING'].map((type): [string, string] => [
      type,
      id(`data_type: TYPE_${type}`),
    ]),
    ['a state', state()],
    ['a state that is an output', state().replace('"T"', '"O"')],
    ['zeros to begin with', initial(ZERO)],
    ['a file', initial('data_file: "f"')],
    ['one buffer', state('use_same_buffer_for_input_output: true')],
    ['iterative', 'iterative_sequence: true'],
  ])('%s', (_name, batching) => {
    expect(refusal(batching)).toBe('accepted');
  });

  test('memory that grows, on GPUs', () => {
    const body = state('use_same_buffer_for_input_output: true use_growable_memory: true');
    expect(refusal(body, GPU, { gpus: 1 })).toBe('accepted');
    expect(refusal(body, '', { gpus: undefined })).toBe('accepted');
  });
});

describe('refused', () => {
  const START = 'CONTROL_SEQUENCE_START';
  test.each<[string, string, string | RegExp]>([
    ['a control without a name', start(undefined, ''), 'sequence batching control tensor must have a name for m'],
    [
      'one tensor for two kinds',
      `${start()} control_input { name: "START" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } }`,
      "sequence batching control tensor 'START' is specified for multiple control kinds for m",
    ],
    [
      'two kinds of one tensor',
      'control_input { name: "C" control { int32_false_true: [ 0, 1 ] } control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } }',
      "sequence batching control tensor 'C' is specified for multiple control kinds for m",
    ],
    [
      'a kind twice',
      `${start()} ${start(undefined, 'X')}`,
      `sequence batching specifies multiple ${START} tensors for m`,
    ],
    [
      'a flag without values',
      start(''),
      `sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ${START} for m`,
    ],
    [
      'a flag of two datatypes',
      start('int32_false_true: [ 0, 1 ] bool_false_true: [ false, true ]'),
      `sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for ${START} for m`,
    ],
    [
      'a flag of one value',
      start('fp32_false_true: [ 0 ]'),
      `sequence batching control 'fp32_false_true' must have exactly 2 entries for ${START} for m`,
    ],
    [
      'an id with values',
      id('data_type: TYPE_UINT64 int32_false_true: [ 0, 1 ]'),
      "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_CORRID for m",
    ],
    [
      'an id of another datatype',
      id('data_type: TYPE_FP32'),
      'unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING',
    ],
    [
      'a control that is an input',
      start(undefined, 'I'),
      /^sequence batching control tensor 'I' of model m is also an input/,
    ],
    [
      'a preferred size of 0',
      'oldest { preferred_batch_size: 0 }',
      'sequence batching preferred batch size must be positive for m',
    ],
    [
      'a preferred size too large',
      'oldest { preferred_batch_size: 5 }',
      'sequence batching preferred batch size must be <= max batch size for m',
    ],
    [
      'too many candidates',
      'oldest { max_candidate_sequences: 65537 }',
      'max_candidate_sequences must be <= 65536 for m, got 65537',
    ],
    [
      'a utilization above 1',
      'direct { minimum_slot_utilization: 1.5 }',
      'sequence batching minimum slot utilization must be in range (0.0, 1.0] for m',
    ],
    ['a state without input', 'state { output_name: "T" }', "model state must specify 'input_name' for m"],
    ['a state without output', 'state { input_name: "S" }', "model state 'S' must specify 'output_name' for m"],
    [
      'a state without datatype',
      'state { input_name: "S" output_name: "T" }',
      "model state 'S' must specify 'data_type' for m",
    ],
    ['a state of dimension 0', state('', 'dims: 0'), /^model state 'S' dimension must be integer >= 1/],
    ['a state twice', `${state()} ${state()}`, "State input name 'S' specified more than once."],
    [
      'an output of two states',
      `${state()} ${state().replace('"S"', '"R"')}`,
      "State output name 'T' specified more than once.",
    ],
    [
      'a state that is a control',
      `${start(undefined, 'S')} ${state()}`,
      /^state input 'S' of model m is also a control/,
    ],
    ['a state that is an input', state().replace('"S"', '"I"'), /^state input 'I' of model m is also an input/],
    [
      'two initial states',
      state('initial_state { } initial_state { }'),
      "initial_state field for state input 'S' must contain exactly one or zero element. Found '2' elements.",
    ],
    [
      'an initial state of another datatype',
      initial(ZERO).replace('TYPE_INT32 dims: [ 2, 3 ]', 'TYPE_FP32 dims: [ 2, 3 ]'),
      "The data type used for 'initial_state' field of state 'S' does not match the state data type.",
    ],
    [
      'an initial state without name',
      initial(ZERO).replace('name: "zero"', ''),
      "Field 'name' must be set when using initial_state for state input 'S'.",
    ],
    [
      'an initial state of another rank',
      initial(ZERO).replace('[ 2, 3 ]', '[ 2 ]'),
      "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input 'S'. 1 != 2",
    ],
    [
      'an initial state of a variable size',
      initial(ZERO).replace('[ 2, 3 ]', '[ 2, -1 ]'),
      "'initial_state' field for state input name 'S' contains variable dimensions.",
    ],
    [
      'an initial state of another size',
      initial(ZERO).replace('[ 2, 3 ]', '[ 4, 3 ]'),
      "'initial_state' dim for input name 'S' doesn't match 'state' dim description. 4 != 2",
    ],
    ['an initial state of nothing', initial(''), "initial_state setting expects state 'S' to have state_data set"],
    [
      'memory that grows, in two buffers',
      state('use_growable_memory: true'),
      "In order to 'use_growable_memory', you must also enable 'use_same_buffer_for_input_output' for state input name 'S'.",
    ],
    [
      'memory that grows, on a CPU',
      state('use_same_buffer_for_input_output: true use_growable_memory: true'),
      /^'use_growable_memory' can only work with KIND_GPU model instances right now\./,
    ],
  ])('%s', (_name, batching, message) => {
    const text = refusal(batching);
    if (typeof message === 'string') expect(text).toBe(message);
    else expect(text).toMatch(message);
  });

  test('too many rows that are slots', () => {
    expect(refusal('direct { }', 'max_batch_size: 65537')).toBe('max_batch_size must be <= 65536 for m, got 65537');
    expect(refusal('oldest { max_candidate_sequences: 4 }', 'max_batch_size: 65537')).toBe('accepted');
  });

  test('a response cache', () => {
    expect(refusal('', 'response_cache { enable: true }')).toBe(
      'Response Cache does not currently support model m with sequence batching scheduler. Please disable the response cache.',
    );
  });
});
