import { type ConfigCheck, refuseField } from './config-fault.ts';
import {
  DataType,
  ModelInstanceGroup_Kind as GroupKind,
  ModelSequenceBatching_Control_Kind as Kind,
  type ModelConfig,
  type ModelSequenceBatching,
  type ModelSequenceBatching_Control,
  type ModelSequenceBatching_State,
} from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { slotsOf } from './sequence-signature.ts';

const ID_TYPES: readonly DataType[] = [
  DataType.TYPE_UINT64,
  DataType.TYPE_INT64,
  DataType.TYPE_UINT32,
  DataType.TYPE_INT32,
  DataType.TYPE_STRING,
];

/**
 * The rules of sequence_batching (core/src/model_config_utils.cc, ValidateModelConfig; of states
 * sequence_batch_scheduler.cc, GenerateInitialStateData, and sequence_state.cc, Initialize), and those that
 * Triton leaves to the run: no two of a model's inputs, controls and states share a name.
 */
export function sequenceBatchingChecks(config: ModelConfig, batching: ModelSequenceBatching): ConfigCheck[] {
  return [
    () => checkUncached(config),
    () => checkControls(config, batching),
    () => checkStrategy(config, batching),
    ...batching.state.map((state, index) => () => checkState(config, state, `${PATH}.state[${index}]`)),
    () => checkStateNames(config, batching),
  ];
}

const PATH = 'sequence_batching';

function checkUncached({ name, responseCache }: ModelConfig): void {
  if (responseCache?.enable !== true) return;
  const text = `Response Cache does not currently support model ${name} with sequence batching scheduler.`;
  refuseField('response_cache', `${text} Please disable the response cache.`);
}

function checkStateNames({ name, input }: ModelConfig, { controlInput, state: states }: ModelSequenceBatching): void {
  const taken = new Map(input.map((each) => [each.name, 'an input']));
  for (const control of controlInput) taken.set(control.name, 'a control');
  const outputs = new Set<string>();
  for (const [index, state] of states.entries()) {
    const path = `${PATH}.state[${index}]`;
    const what = taken.get(state.inputName);
    if (what === 'a state') {
      refuseField(`${path}.input_name`, `State input name '${state.inputName}' specified more than once.`);
    }
    if (what !== undefined) {
      const text = `state input '${state.inputName}' of model ${name} is also ${what}: the server makes it`;
      refuseField(`${path}.input_name`, text);
    }
    taken.set(state.inputName, 'a state');
    if (outputs.has(state.outputName)) {
      refuseField(`${path}.output_name`, `State output name '${state.outputName}' specified more than once.`);
    }
    outputs.add(state.outputName);
  }
}

function checkControls(config: ModelConfig, batching: ModelSequenceBatching): void {
  const { name } = config;
  const taken = new Map(config.input.map((input) => [input.name, 'an input']));
  const kinds = new Set<Kind>();
  for (const [index, input] of batching.controlInput.entries()) {
    const path = `${PATH}.control_input[${index}]`;
    if (input.name === '') refuseField(path, `sequence batching control tensor must have a name for ${name}`);
    const what = taken.get(input.name);
    if (what === 'a control' || input.control.length > 1) {
      const text = `sequence batching control tensor '${input.name}' is specified for multiple control kinds`;
      refuseField(`${path}.name`, `${text} for ${name}`);
    }
    if (what !== undefined) {
      const text = `sequence batching control tensor '${input.name}' of model ${name} is also ${what}`;
      refuseField(`${path}.name`, `${text}: the server makes it, so it must not be listed`);
    }
    taken.set(input.name, 'a control');
    for (const [at, control] of input.control.entries()) {
      const within = `${path}.control[${at}]`;
      const kind = `CONTROL_SEQUENCE_${KIND_NAMES[control.kind]}`;
      if (kinds.has(control.kind))
        refuseField(within, `sequence batching specifies multiple ${kind} tensors for ${name}`);
      kinds.add(control.kind);
      if (control.kind === Kind.CONTROL_SEQUENCE_CORRID) checkId(name, within, control);
      else checkPair(name, within, kind, control);
    }
  }
}

const KIND_NAMES: Readonly<Record<Kind, string>> = {
  [Kind.CONTROL_SEQUENCE_START]: 'START',
  [Kind.CONTROL_SEQUENCE_READY]: 'READY',
  [Kind.CONTROL_SEQUENCE_END]: 'END',
  [Kind.CONTROL_SEQUENCE_CORRID]: 'CORRID',
};

function pairsOf(control: ModelSequenceBatching_Control) {
  const { int32FalseTrue, fp32FalseTrue, boolFalseTrue } = control;
  const pairs = [
    { field: 'int32_false_true', values: int32FalseTrue },
    { field: 'fp32_false_true', values: fp32FalseTrue },
    { field: 'bool_false_true', values: boolFalseTrue },
  ];
  return pairs.filter(({ values }) => values.length > 0);
}

/** A flag has one pair of values, which tells its datatype. */
function checkPair(model: string, path: string, kind: string, control: ModelSequenceBatching_Control): void {
  const [pair, ...others] = pairsOf(control);
  if (pair === undefined) {
    const text = "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true'";
    refuseField(path, `${text} for ${kind} for ${model}`);
  }
  if (others.length > 0) {
    const text =
      "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true'";
    refuseField(path, `${text} for ${kind} for ${model}`);
  }
  if (pair.values.length !== 2) {
    const text = `sequence batching control '${pair.field}' must have exactly 2 entries for ${kind} for ${model}`;
    refuseField(`${path}.${pair.field}`, text);
  }
}

function checkId(model: string, path: string, control: ModelSequenceBatching_Control): void {
  const kind = 'CONTROL_SEQUENCE_CORRID';
  const [pair] = pairsOf(control);
  if (pair !== undefined) {
    const text = "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true'";
    refuseField(`${path}.${pair.field}`, `${text} for ${kind} for ${model}`);
  }
  if (ID_TYPES.includes(control.dataType)) return;
  const allowed = 'Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING';
  refuseField(`${path}.data_type`, `unexpected data type for control ${kind} for ${model}. ${allowed}`);
}

function checkStrategy(config: ModelConfig, batching: ModelSequenceBatching): void {
  const { name, maxBatchSize } = config;
  const { strategyChoice: strategy } = batching;
  const slots = slotsOf(config, batching);
  if (slots > LIMITS.sequences_per_instance_max) {
    const isCandidates = strategy.case === 'oldest' && strategy.value.maxCandidateSequences > 0;
    const field = isCandidates ? 'max_candidate_sequences' : 'max_batch_size';
    refuseField(
      isCandidates ? `${PATH}.oldest.${field}` : field,
      `${field} must be <= ${LIMITS.sequences_per_instance_max} for ${name}, got ${slots}`,
    );
  }
  if (strategy.case === 'oldest') {
    for (const [index, size] of strategy.value.preferredBatchSize.entries()) {
      const path = `${PATH}.oldest.preferred_batch_size[${index}]`;
      const text = 'sequence batching preferred batch size must be';
      if (size <= 0) refuseField(path, `${text} positive for ${name}`);
      if (size > maxBatchSize) refuseField(path, `${text} <= max batch size for ${name}`);
    }
  }
  if (strategy.case === 'direct') {
    const { minimumSlotUtilization: least } = strategy.value;
    if (least >= 0 && least <= 1) return;
    const text = 'sequence batching minimum slot utilization must be in range (0.0, 1.0]';
    refuseField(`${PATH}.direct.minimum_slot_utilization`, `${text} for ${name}`);
  }
}

function checkState(config: ModelConfig, state: ModelSequenceBatching_State, path: string): void {
  const { name } = config;
  if (state.inputName === '') refuseField(path, `model state must specify 'input_name' for ${name}`);
  const what = `model state '${state.inputName}'`;
  if (state.outputName === '') refuseField(path, `${what} must specify 'output_name' for ${name}`);
  if (state.dataType === DataType.TYPE_INVALID)
    refuseField(`${path}.data_type`, `${what} must specify 'data_type' for ${name}`);
  if (!state.dims.every((dim) => dim === -1n || (dim >= 1n && dim <= BigInt(Number.MAX_SAFE_INTEGER)))) {
    const variable = 'dimension must be integer >= 1, or -1 to indicate a variable-size dimension';
    refuseField(`${path}.dims`, `${what} ${variable} for ${name}`);
  }
  if (state.useGrowableMemory) checkGrowable(config, state, path);
  if (state.initialState.length > 1) {
    const text = `initial_state field for state input '${state.inputName}' must contain exactly one or zero element.`;
    refuseField(`${path}.initial_state[1]`, `${text} Found '${state.initialState.length}' elements.`);
  }
  checkInitialState(state, `${path}.initial_state[0]`);
}

function checkGrowable({ instanceGroup }: ModelConfig, state: ModelSequenceBatching_State, path: string): void {
  if (!state.useSameBufferForInputOutput) {
    const text = "In order to 'use_growable_memory', you must also enable 'use_same_buffer_for_input_output'";
    refuseField(`${path}.use_growable_memory`, `${text} for state input name '${state.inputName}'.`);
  }
  // What KIND_AUTO becomes may not be known yet.
  if (!instanceGroup.some(({ kind }) => kind === GroupKind.CPU || kind === GroupKind.MODEL)) return;
  const text =
    "'use_growable_memory' can only work with KIND_GPU model instances right now. Please either change the instance " +
    `type to KIND_GPU or set 'use_growable_memory' to false for state input '${state.inputName}'.`;
  refuseField(`${path}.use_growable_memory`, text);
}

function checkInitialState(state: ModelSequenceBatching_State, path: string): void {
  const { inputName, dataType, dims, initialState } = state;
  const [initial] = initialState;
  if (initial === undefined) return;
  if (initial.dataType !== dataType) {
    const text = `The data type used for 'initial_state' field of state '${inputName}'`;
    refuseField(path, `${text} does not match the state data type.`);
  }
  if (initial.name === '') {
    refuseField(path, `Field 'name' must be set when using initial_state for state input '${inputName}'.`);
  }
  if (initial.dims.length !== dims.length) {
    const text = "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions";
    const lengths = `${initial.dims.length} != ${dims.length}`;
    refuseField(path, `${text} for state input '${inputName}'. ${lengths}`);
  }
  for (const [axis, dim] of initial.dims.entries()) {
    if (dim < 1n) {
      refuseField(
        `${path}.dims`,
        `'initial_state' field for state input name '${inputName}' contains variable dimensions.`,
      );
    }
    if (dims[axis] !== -1n && dims[axis] !== dim) {
      const text = `'initial_state' dim for input name '${inputName}' doesn't match 'state' dim description.`;
      refuseField(path, `${text} ${dim} != ${dims[axis]}`);
    }
  }
  if (initial.stateData.case === undefined) {
    refuseField(path, `initial_state setting expects state '${inputName}' to have state_data set`);
  }
}
