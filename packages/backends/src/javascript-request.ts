import { type Parameters, type ParameterValue, type Tensor, tensorValues } from '@nereid/protocol';
import type { BatchRequest } from './backend.ts';
import { FLAG_SEQUENCE_END, FLAG_SEQUENCE_START, type ModelRequest, type ModelTensor } from './javascript-model.ts';

/** Shapes as a model sees them, by the input's name: of those that the config reshapes. */
export type ReshapedInputs = ReadonlyMap<string, (shape: readonly number[]) => readonly number[]>;

/** A request as a JavaScript model sees it. */
export function modelRequest(from: BatchRequest, reshaped: ReshapedInputs): ModelRequest {
  const { request } = from;
  return {
    id: request.id,
    correlationId: request.correlationId,
    flags: (request.sequenceStart ? FLAG_SEQUENCE_START : 0) | (request.sequenceEnd ? FLAG_SEQUENCE_END : 0),
    timeoutUs: integer(request.timeoutUs),
    parameters: modelParameters(request.parameters),
    inputs: new Map(request.inputs.map((input) => [input.name, modelTensor(input, reshaped.get(input.name))])),
    state: modelStates(from),
    // Only made for models that look at it.
    get signal() {
      return from.signal;
    },
  };
}

const NO_STATES: ReadonlyMap<string, ModelTensor> = new Map();

function modelStates({ states = [] }: BatchRequest): ReadonlyMap<string, ModelTensor> {
  return states.length === 0 ? NO_STATES : new Map(states.map((state) => [state.name, modelTensor(state)]));
}

/** A tensor as a JavaScript model sees it, its data viewed where they are aligned. */
export function modelTensor(tensor: Tensor, reshape?: (shape: readonly number[]) => readonly number[]): ModelTensor {
  const { datatype, shape } = tensor;
  return { datatype, shape: reshape?.(shape) ?? shape, data: tensorValues(tensor) };
}

/** Integers as numbers where that is exact. */
export function modelParameters(parameters: Parameters): Parameters {
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, plain(value)]));
}

function plain(value: ParameterValue): ParameterValue {
  return typeof value === 'bigint' ? integer(value) : value;
}

/** A number where that is exact. */
function integer(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
