/** What a gRPC request's parameters say (infer_handler.cc: SetInferenceRequestMetadata, ParseSharedMemoryParams, ParseClassificationParams). */
import { NereidError } from './error.ts';
import type { Parameters, ParameterValue } from './infer.ts';
import type { GrpcParameter, GrpcParameters } from './v2-grpc-document.ts';
import { stepNumber } from './v2-parameters.ts';
import type { SharedMemoryPlace } from './v2-shared-memory.ts';

const EMPTY_FINAL_RESPONSE = 'triton_enable_empty_final_response';

/** With the defaults of those not given. */
export interface GrpcRequestParameters {
  readonly correlationId: bigint | string;
  readonly sequenceStart: boolean;
  readonly sequenceEnd: boolean;
  /** `nereid_step`. */
  readonly sequenceStep: number | undefined;
  /** `nereid_journal`. */
  readonly journal: boolean | undefined;
  readonly priority: bigint;
  readonly timeoutUs: bigint;
  /** `triton_enable_empty_final_response`, which only streams look at. */
  readonly emptyFinalResponse: boolean;
  /** The others, for the model. */
  readonly custom: Parameters;
}

const DEFAULTS: GrpcRequestParameters = Object.freeze({
  correlationId: 0n,
  sequenceStart: false,
  sequenceEnd: false,
  sequenceStep: undefined,
  journal: undefined,
  priority: 0n,
  timeoutUs: 0n,
  emptyFinalResponse: false,
  custom: Object.freeze({}),
});

/** Throws INVALID_ARG naming the key for a value of the wrong kind and for `triton_…` keys. */
export function grpcRequestParameters(parameters: GrpcParameters): GrpcRequestParameters {
  if (parameters.size === 0) return DEFAULTS;
  const result: { -readonly [K in keyof GrpcRequestParameters]: GrpcRequestParameters[K] } = { ...DEFAULTS };
  const custom: [string, ParameterValue][] = [];
  for (const [name, parameter] of parameters) {
    switch (name) {
      case 'sequence_id':
        result.correlationId = correlationId(parameter);
        break;
      case 'sequence_start':
        result.sequenceStart = flag(name, parameter);
        break;
      case 'sequence_end':
        result.sequenceEnd = flag(name, parameter);
        break;
      case 'nereid_step':
        result.sequenceStep = stepNumber(integer(name, parameter));
        break;
      case 'nereid_journal':
        result.journal = flag(name, parameter);
        break;
      case 'priority':
        result.priority = fromZero(name, integer(name, parameter));
        break;
      case 'timeout':
        result.timeoutUs = timeout(parameter);
        break;
      case EMPTY_FINAL_RESPONSE:
        result.emptyFinalResponse = flag(name, parameter);
        break;
      default:
        custom.push([name, customValue(name, parameter)]);
    }
  }
  // fromEntries defines members, so that a parameter named __proto__ is one like any other.
  if (custom.length > 0) result.custom = Object.fromEntries(custom);
  return result;
}

function correlationId(parameter: GrpcParameter): bigint | string {
  if (parameter.kind === 'string_param') return parameter.value;
  // Triton takes the 64 bits as they are.
  if (parameter.kind === 'int64_param') return BigInt.asUintN(64, parameter.value);
  throw wrongKind('sequence_id', 'int64_param or string_param.');
}

function flag(name: string, parameter: GrpcParameter): boolean {
  if (parameter.kind === 'bool_param') return parameter.value;
  throw wrongKind(name, 'bool_param.');
}

function integer(name: string, parameter: GrpcParameter): bigint {
  if (parameter.kind === 'int64_param' || parameter.kind === 'uint64_param') return parameter.value;
  throw wrongKind(name, 'int64_param or uint64_param.');
}

function timeout(parameter: GrpcParameter): bigint {
  if (parameter.kind !== 'int64_param') throw wrongKind('timeout', 'int64_param.');
  return fromZero('timeout', parameter.value);
}

function fromZero(name: string, value: bigint): bigint {
  if (value >= 0n) return value;
  throw new NereidError('INVALID_ARG', `invalid value for '${name}', expected value >= 0.`, {
    field: `parameters.${name}`,
  });
}

function customValue(name: string, parameter: GrpcParameter): ParameterValue {
  if (name.startsWith('triton_')) {
    throw new NereidError(
      'INVALID_ARG',
      "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with " +
        `'triton_' are allowed: ${EMPTY_FINAL_RESPONSE}`,
      { field: `parameters.${name}` },
    );
  }
  if (parameter.kind === 'none' || parameter.kind === 'uint64_param') {
    throw wrongKind(name, 'int64_param, bool_param, or string_param.');
  }
  return parameter.value;
}

function wrongKind(name: string, expected: string): NereidError {
  return new NereidError('INVALID_ARG', `invalid value type for '${name}' parameter, expected ${expected}`, {
    field: `parameters.${name}`,
  });
}

/** The place that a tensor's parameters name, if they name one; `field` is the tensor's, for errors. */
export function grpcSharedMemoryPlace(
  parameters: GrpcParameters,
  tensor: string,
  field: string,
): SharedMemoryPlace | undefined {
  if (parameters.size === 0) return undefined;
  const region = parameters.get('shared_memory_region');
  const offset = parameters.get('shared_memory_offset');
  const byteSize = parameters.get('shared_memory_byte_size');
  const refuse = (text: string) =>
    new NereidError('INVALID_ARG', `${text} for tensor '${tensor}'`, { field: `${field}.parameters` });
  if (region === undefined) {
    const orphan = offset !== undefined ? 'offset' : byteSize !== undefined ? 'byte_size' : undefined;
    if (orphan === undefined) return undefined;
    throw refuse(`'shared_memory_${orphan}' can not be specified without 'shared_memory_region' parameter`);
  }
  if (region.kind !== 'string_param') {
    const text = `invalid value type for 'shared_memory_region' parameter for tensor '${tensor}', expected string_param.`;
    throw new NereidError('INVALID_ARG', text, { field: `${field}.parameters.shared_memory_region` });
  }
  if (byteSize === undefined) {
    throw refuse("'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter");
  }
  const integer = (name: string, parameter: GrpcParameter) => {
    const named = `'${name}' parameter for tensor '${tensor}'`;
    const place = { field: `${field}.parameters.${name}` };
    if (parameter.kind !== 'int64_param') {
      throw new NereidError('INVALID_ARG', `invalid value type for ${named}, expected int64_param.`, place);
    }
    // Past 2^53 it is only near, which is far outside any region all the same.
    if (parameter.value >= 0n) return Number(parameter.value);
    throw new NereidError('INVALID_ARG', `invalid value for ${named}, expected value >= 0.`, place);
  };
  return {
    region: region.value,
    offset: offset === undefined ? 0 : integer('shared_memory_offset', offset),
    byteSize: integer('shared_memory_byte_size', byteSize),
  };
}

/** How many classes an output is to be given as, 0 for its values. */
export function classificationCount(parameters: GrpcParameters, field: string): number {
  const parameter = parameters.get('classification');
  if (parameter === undefined) return 0;
  const place = { field: `${field}.parameters.classification` };
  if (parameter.kind !== 'int64_param') {
    const text = "invalid value type for 'classification' parameter, expected int64_param";
    throw new NereidError('INVALID_ARG', text, place);
  }
  if (parameter.value > 0n) return Number(parameter.value);
  throw new NereidError('INVALID_ARG', "invalid value for 'classification' parameter, expected >= 0", place);
}
