/**
 * JSON text for what BullMQ has parsed. Job data pass through JSON.parse, which knows one kind of
 * number, so what has no number of its own travels as something else and becomes its literal here:
 * a 64-bit integer or NaN among a tensor's elements as text, an integer or a double among the
 * parameters as `{ int64: text }` and `{ double: number or text }`.
 */
import { NereidError } from './error.ts';
import type { Parameters, ParameterValue } from './infer.ts';
import { doubleText } from './json-numbers.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** JSON.parse makes it of a literal that is too big; the reader then says so. */
const TOO_BIG = '1e999';
const INTEGER = /^-?[0-9]{1,20}$/;
/** Doubles that a trip through JSON.parse and JSON.stringify changes. */
const DOUBLES: ReadonlySet<unknown> = new Set(['NaN', 'Infinity', '-Infinity', '-0.0']);

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The text of any value from JSON.parse. Throws INVALID_ARG where it nests deeper than `depthMax`. */
export function jsonText(value: unknown, depthMax: number, scalar: (value: unknown) => string = scalarText): string {
  if (typeof value !== 'object' || value === null) return scalar(value);
  if (depthMax === 0) {
    throw new NereidError('INVALID_ARG', 'failed to parse the job data: JSON nesting depth exceeds the allowed limit', {
      field: 'data',
    });
  }
  if (Array.isArray(value)) {
    if (value.every(isPlain)) return JSON.stringify(value);
    const elements: string[] = [];
    for (const element of value) elements.push(jsonText(element, depthMax - 1, scalar));
    return `[${elements.join(',')}]`;
  }
  const members = Object.entries(value).map(([name, member]) => {
    return `${JSON.stringify(name)}:${jsonText(member, depthMax - 1, scalar)}`;
  });
  return `{${members.join(',')}}`;
}

/** A number that each way of writing scalars writes as JSON.stringify does. */
function isPlain(value: unknown): boolean {
  if (typeof value !== 'number' || !Number.isFinite(value) || Object.is(value, -0)) return false;
  return Number.isSafeInteger(value) || !Number.isInteger(value);
}

function scalarText(value: unknown): string {
  if (typeof value === 'number' && !Number.isFinite(value)) return value < 0 ? `-${TOO_BIG}` : TOO_BIG;
  return JSON.stringify(value) ?? 'null';
}

/** An element of a 64-bit integer tensor: text of digits stands for the integer. */
export function longText(value: unknown): string {
  if (typeof value === 'string' && INTEGER.test(value)) return value;
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new NereidError(
      'INVALID_ARG',
      `${value} is beyond 2^53, where JSON numbers lose digits; give it as a string, or the tensor as 'b64'`,
      { field: 'inputs' },
    );
  }
  return scalarText(value);
}

/** An element of a floating-point tensor: NaN, Infinity, -Infinity and -0.0 may be given as text. */
export function floatText(value: unknown): string {
  if (DOUBLES.has(value)) return String(value);
  return Object.is(value, -0) ? '-0.0' : scalarText(value);
}

/** A request's parameters; other than an object is left to the reader to refuse. */
export function parametersText(parameters: unknown, depthMax: number): string {
  if (!isJsonObject(parameters)) return jsonText(parameters, depthMax);
  const members = Object.entries(parameters).map(([name, value]) => {
    return `${JSON.stringify(name)}:${typedText(value) ?? jsonText(value, depthMax - 1)}`;
  });
  return `{${members.join(',')}}`;
}

function typedText(value: unknown): string | undefined {
  if (!isJsonObject(value)) return undefined;
  const { int64, double } = value;
  if (typeof int64 === 'string' && INTEGER.test(int64)) return int64;
  if (typeof double === 'number') return doubleText(double);
  return DOUBLES.has(double) ? String(double) : undefined;
}

/** Parameters such that `parametersText` gives each as it was. */
export function typedParameters(parameters: Parameters): JsonObject {
  return mapParameters(parameters, (value) => {
    if (typeof value === 'bigint') return isSafe(value) ? Number(value) : { int64: String(value) };
    if (typeof value !== 'number') return value;
    if (!Number.isFinite(value) || Object.is(value, -0)) return { double: doubleText(value) };
    return Number.isInteger(value) ? { double: value } : value;
  });
}

/** Parameters in plain JSON: what has no number there is text. */
export function plainParameters(parameters: Parameters): JsonObject {
  return mapParameters(parameters, (value) => {
    if (typeof value === 'bigint') return isSafe(value) ? Number(value) : String(value);
    return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
  });
}

function mapParameters(parameters: Parameters, convert: (value: ParameterValue) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, convert(value)]));
}

export function isSafe(value: bigint): boolean {
  return Number.isSafeInteger(Number(value));
}
