/**
 * The body of generate and generate_stream (GenerateRequestClass in http_server.cc,
 * extension_generate.md): flat JSON, whose members are tensors where they have an input's name, and
 * parameters of the model where they have not. The members of `parameters` stand as if beside it.
 */
import type { Datatype } from './datatype.ts';
import { errorInfo, NereidError } from './error.ts';
import { type InferRequest, type ParameterValue, REQUEST_DEFAULTS } from './infer.ts';
import { type JsonCursor, jsonCursor, peek } from './json-cursor.ts';
import { readElements } from './json-elements.ts';
import { checkJsonInput } from './json-input.ts';
import {
  expectEnd,
  firstElement,
  firstKey,
  type JsonScalar,
  nextElement,
  nextKey,
  readScalar,
  skipValue,
} from './json-reader.ts';
import { ownText } from './own-text.ts';
import { JSON_MEMBERS_MAX, type RequestLimits } from './protocol-limits.ts';
import type { Tensor } from './tensor.ts';
import { addName } from './v2-document.ts';
import { wrongKind } from './v2-member.ts';
import { parameterValue } from './v2-parameters.ts';

/** An input as the model's metadata tell it: with the batch dimension, -1 for variable ones. */
export interface GenerateInput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
}

export interface GenerateOptions {
  readonly modelName: string;
  /** '' for the greatest ready one. */
  readonly modelVersion: string;
  readonly inputs: readonly GenerateInput[];
  readonly limits: RequestLimits;
}

const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
const PARAMETERS = 'parameters';
/** Of infer requests only; as a parameter of the model it would seem to number something. */
const STEP = 'nereid_step';
const JOURNAL = 'nereid_journal';
const BRACKETS = [Buffer.from('['), Buffer.from(']')] as const;

/** A tensor's place in the text, or a parameter's value. */
type Member = (
  | { readonly input: GenerateInput; readonly start: number; readonly end: number }
  | { readonly name: string; readonly value: JsonScalar }
) & {
  /** It stands in `parameters`. */
  readonly nested: boolean;
};

interface Reading {
  readonly cursor: JsonCursor;
  readonly options: GenerateOptions;
  readonly members: Member[];
  /** `id` at the top, undefined where it is not given. */
  id: JsonScalar | undefined;
}

/**
 * Decodes the body. Nothing is said of sequences, priorities and timeouts here: those names are
 * parameters like any other. `id` is the request's id and, as in Triton, a parameter too. A tensor's
 * shape is found from how many elements it has (`deduceShape`).
 * Throws INVALID_ARG with Triton's text and the field at fault.
 */
export function decodeGenerateRequest(body: Uint8Array, options: GenerateOptions): InferRequest {
  const reading: Reading = { cursor: jsonCursor(body), options, members: [], id: undefined };
  const { cursor, members } = reading;
  const isObject = peek(cursor) === OPEN_OBJECT;
  if (isObject) readMembers(reading, false);
  else skipValue(cursor, options.limits.json_depth_max);
  expectEnd(cursor);
  if (!isObject) {
    throw new NereidError('INVALID_ARG', 'attempt to get members for non-object', { field: 'body' });
  }

  const { id = '' } = reading;
  if (typeof id !== 'string') throw wrongKind('id', 'id', 'JSON non-string as string');
  const inputs: Tensor[] = [];
  const parameters: [string, ParameterValue][] = [];
  let elements = 0;
  let journal: boolean | undefined;
  for (const member of members) {
    try {
      if ('input' in member) {
        const count = countElements(cursor, member.start);
        elements += count;
        inputs.push(tensor(cursor, member, { count, elements }, options.limits));
      } else {
        if (member.name === STEP)
          throw refused(`'${STEP}' numbers steps of sequences, which only infer asks for`, STEP);
        if (member.name === JOURNAL) journal = journalFlag(member.value);
        else parameters.push([member.name, parameterValue(member.name, member.value)]);
      }
    } catch (thrown) {
      throw member.nested ? nestedError(thrown) : thrown;
    }
  }
  return {
    ...REQUEST_DEFAULTS,
    ...(journal === undefined ? {} : { journal }),
    modelName: options.modelName,
    modelVersion: options.modelVersion,
    id: ownText(id),
    // fromEntries defines members, so that a parameter named __proto__ is one like any other.
    parameters: Object.fromEntries(parameters),
    inputs,
  };
}

/** Checks an object's text and keeps its members; `nested`: it is the object `parameters`. */
function readMembers(reading: Reading, nested: boolean): void {
  const { cursor, options, members } = reading;
  const depthMax = options.limits.json_depth_max;
  let names: Set<string> | undefined;
  for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
    names = addName(cursor, names, key);
    const opening = peek(cursor);
    const start = cursor.position;
    const input = options.inputs.find(({ name }) => name === key);
    if (key === PARAMETERS && !nested) {
      if (input !== undefined) {
        throw refused("Keyword 'parameters' for nested schema also given as input tensor name", PARAMETERS);
      }
      if (opening !== OPEN_OBJECT) {
        skipValue(cursor, depthMax);
        throw refused(
          "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
          PARAMETERS,
        );
      }
      readMembers(reading, true);
    } else if (input === undefined || key === 'id') {
      const value = readScalar(cursor, depthMax);
      if (key === 'id' && !nested) reading.id = value;
      if (input === undefined) members.push({ name: key, value, nested });
      else members.push({ input, start, end: cursor.position, nested });
    } else {
      skipValue(cursor, depthMax);
      members.push({ input, start, end: cursor.position, nested });
    }
    if (members.length > JSON_MEMBERS_MAX) {
      throw new NereidError('INVALID_ARG', `the request has more than ${JSON_MEMBERS_MAX} members`, { field: 'body' });
    }
  }
}

/** What is wrong with a member of `parameters` says so in front. */
function nestedError(thrown: unknown): unknown {
  const { code, message, ...detail } = errorInfo(thrown);
  return new NereidError(code, `Converting keyword: '${PARAMETERS}': ${message}`, { ...detail, cause: thrown });
}

function journalFlag(value: JsonScalar): boolean {
  if (typeof value === 'boolean') return value;
  throw refused(`Unable to parse '${JOURNAL}': attempt to access JSON non-boolean as boolean`, JOURNAL);
}

function refused(message: string, field: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
}

/** What stands in the outermost array, 1 for what is none. The text is checked before. */
function countElements(cursor: JsonCursor, start: number): number {
  cursor.position = start;
  if (peek(cursor) !== OPEN_ARRAY) return 1;
  let count = 0;
  for (let more = firstElement(cursor); more; more = nextElement(cursor)) {
    skipValue(cursor, Number.POSITIVE_INFINITY);
    count++;
  }
  return count;
}

function tensor(
  { bytes }: JsonCursor,
  { input, start, end }: Extract<Member, { readonly input: GenerateInput }>,
  size: { readonly count: number; readonly elements: number },
  limits: RequestLimits,
): Tensor {
  const { name, datatype } = input;
  const shape = deduceShape(input.shape, size.count);
  if (shape === undefined) {
    throw refused(`The schema can not convert input '${name}' to tensor with proper shape`, name);
  }
  const place = { name, datatype, shape, field: name };
  checkJsonInput(place, { ...size, textBytes: end - start }, limits);
  return { name, datatype, shape, data: readElements(arraySpan(bytes, start, end), datatype, size.count, place) };
}

/** The text of an array; of one element's text, between brackets, where it is none. */
function arraySpan(bytes: Uint8Array, start: number, end: number) {
  if (bytes[start] === OPEN_ARRAY) return { bytes, start, end };
  const [open, close] = BRACKETS;
  const bracketed = Buffer.concat([open, bytes.subarray(start, end), close]);
  return { bytes: bracketed, start: 0, end: bracketed.byteLength };
}

/**
 * The shape of so many elements: each fixed dimension divides them, the innermost variable one takes
 * what is left and the other variable ones are 1. undefined where that does not come out even.
 */
export function deduceShape(shape: readonly number[], count: number): readonly number[] | undefined {
  let left = count;
  for (const dimension of shape) {
    if (dimension === -1) continue;
    if (left % dimension !== 0) return undefined;
    left /= dimension;
  }
  const deduced = [...shape];
  for (let axis = deduced.length - 1; axis >= 0; axis--) {
    if (deduced[axis] !== -1) continue;
    deduced[axis] = left;
    left = 1;
  }
  return left === 1 ? deduced : undefined;
}
