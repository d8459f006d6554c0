import { type CarriedRequest, type CarriedTensor, isBlobTensor, type ParameterValue } from '@nereid/protocol';

/** In `flags`, as JavaScript models see them (tritonserver.h, TRITONSERVER_requestflag_enum). */
const FLAG_SEQUENCE_START = 1;
const FLAG_SEQUENCE_END = 2;

/** A request as a batching strategy sees it: all but the data, which may not be in this process. */
export interface StrategyRequest {
  readonly id: string;
  /** 0n or '' for none. */
  readonly correlationId: bigint | string;
  readonly flags: number;
  /** 0 for none. */
  readonly priority: number | bigint;
  /** How long the client lets the request wait in the queue, in microseconds; 0 where it does not say. */
  readonly timeoutUs: number | bigint;
  /** Integers are numbers where they are safe, else bigints. */
  readonly parameters: Readonly<Record<string, ParameterValue | number>>;
  /** Empty for all. */
  readonly requestedOutputs: readonly string[];
  readonly inputs: ReadonlyMap<string, StrategyInput>;
}

export interface StrategyInput {
  readonly datatype: string;
  readonly shape: readonly number[];
  /** Of the binary form: BYTES with the length before each element. */
  readonly byteSize: number;
}

export function strategyRequest(request: CarriedRequest): StrategyRequest {
  const parameters = Object.entries(request.parameters).map(([name, value]) => [name, plain(value)]);
  return {
    id: request.id,
    correlationId: request.correlationId,
    flags: (request.sequenceStart ? FLAG_SEQUENCE_START : 0) | (request.sequenceEnd ? FLAG_SEQUENCE_END : 0),
    priority: integer(request.priority),
    timeoutUs: integer(request.timeoutUs),
    parameters: Object.fromEntries(parameters),
    requestedOutputs: request.requestedOutputs,
    inputs: new Map(request.inputs.map((input) => [input.name, strategyInput(input)])),
  };
}

function strategyInput(input: CarriedTensor): StrategyInput {
  const byteSize = isBlobTensor(input) ? input.blob.bytes : input.data.byteLength;
  return { datatype: input.datatype, shape: input.shape, byteSize };
}

function plain(value: ParameterValue): ParameterValue | number {
  return typeof value === 'bigint' ? integer(value) : value;
}

/** A number where that is exact. */
function integer(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
