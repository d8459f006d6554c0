import { INT64_MAX } from './element-array.ts';
import { NereidError } from './error.ts';
import type { Parameters, ParameterValue } from './infer.ts';
import type { JsonScalar } from './json-reader.ts';
import { ownText } from './own-text.ts';
import type { RawParameter } from './v2-document.ts';

const NO_PARAMETERS: Parameters = Object.freeze({});

/** What a v2 request's `parameters` say, with the defaults of those not given. */
export interface RequestParameters {
  readonly correlationId: bigint | string;
  readonly sequenceStart: boolean;
  readonly sequenceEnd: boolean;
  /** `nereid_step`. */
  readonly sequenceStep: number | undefined;
  /** `nereid_journal`. */
  readonly journal: boolean | undefined;
  readonly priority: bigint;
  readonly timeoutUs: bigint;
  /** Default form of outputs that are not listed in `outputs`. */
  readonly binaryDataOutput: boolean;
  /** The others, for the model. */
  readonly custom: Parameters;
}

const DEFAULTS: RequestParameters = Object.freeze({
  correlationId: 0n,
  sequenceStart: false,
  sequenceEnd: false,
  sequenceStep: undefined,
  journal: undefined,
  priority: 0n,
  timeoutUs: 0n,
  binaryDataOutput: false,
  custom: NO_PARAMETERS,
});

/**
 * The request's parameters (ParseJsonTritonParams in http_server.cc), in the order given.
 * Throws INVALID_ARG naming the key for a value of the wrong kind and for `triton_…` keys.
 */
export function requestParameters(raw: readonly RawParameter[] | JsonScalar | undefined): RequestParameters {
  if (raw === undefined) return DEFAULTS;
  if (!Array.isArray(raw)) {
    throw new NereidError('INVALID_ARG', 'failed to get request params.: attempt to get members for non-object', {
      field: 'parameters',
    });
  }
  const result: { -readonly [K in keyof RequestParameters]: RequestParameters[K] } = { ...DEFAULTS };
  const custom: [string, ParameterValue][] = [];
  for (const [name, value] of raw as readonly RawParameter[]) {
    switch (name) {
      case 'sequence_id':
        result.correlationId =
          typeof value === 'string' ? ownText(value) : (unsigned(value) ?? refuse(name, 'non-string as string'));
        break;
      case 'sequence_start':
        result.sequenceStart = flag(name, value);
        break;
      case 'sequence_end':
        result.sequenceEnd = flag(name, value);
        break;
      case 'nereid_step':
        result.sequenceStep = stepNumber(unsigned(value) ?? refuse(name, 'non-unsigned-integer as unsigned-integer'));
        break;
      case 'nereid_journal':
        result.journal = flag(name, value);
        break;
      case 'priority':
        result.priority = unsigned(value) ?? refuse(name, 'non-unsigned-integer as unsigned-integer');
        break;
      case 'timeout':
        result.timeoutUs = unsigned(value) ?? refuse(name, 'non-unsigned-integer as unsigned-integer');
        break;
      case 'binary_data_output':
        result.binaryDataOutput = flag(name, value);
        break;
      default:
        custom.push([name, customValue(name, value)]);
    }
  }
  // fromEntries defines members, so that a parameter named __proto__ is one like any other.
  if (custom.length > 0) result.custom = Object.fromEntries(custom);
  return result;
}

/** The number of a step; throws INVALID_ARG where it is none. */
export function stepNumber(value: bigint): number {
  if (value >= 0n && value <= Number.MAX_SAFE_INTEGER) return Number(value);
  const message = `invalid value for 'nereid_step', expected a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`;
  throw new NereidError('INVALID_ARG', message, { field: 'parameters.nereid_step' });
}

/** A non-negative integer of 64 bits, else undefined. */
export function unsigned(value: JsonScalar): bigint | undefined {
  if (typeof value === 'number' && value >= 0) return BigInt(value);
  return typeof value === 'bigint' && value >= 0n ? value : undefined;
}

function flag(name: string, value: JsonScalar): boolean {
  return typeof value === 'boolean' ? value : refuse(name, 'non-boolean as boolean');
}

function refuse(name: string, words: string): never {
  throw new NereidError('INVALID_ARG', `Unable to parse '${name}': attempt to access JSON ${words}`, {
    field: `parameters.${name}`,
  });
}

function customValue(name: string, value: JsonScalar): ParameterValue {
  if (name.startsWith('triton_')) {
    throw new NereidError(
      'INVALID_ARG',
      "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
      { field: `parameters.${name}` },
    );
  }
  return parameterValue(name, value);
}

/**
 * The value of a model's parameter: integers of 63 bits and a sign are ints; greater ones are doubles, as for Triton.
 * Throws INVALID_ARG for null, arrays and objects.
 */
export function parameterValue(name: string, value: JsonScalar): ParameterValue {
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return BigInt(value);
  if (typeof value === 'bigint') return value <= INT64_MAX ? value : Number(value);
  if (typeof value === 'object' && value !== null) return value.double;
  throw new NereidError(
    'INVALID_ARG',
    `parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`,
    { field: `parameters.${name}` },
  );
}
