/** The small JSON bodies beside infer: settings, the repository, regions of shared memory. */
import { NereidError } from './error.ts';
import { type JsonCursor, jsonCursor, peek, syntaxError } from './json-cursor.ts';
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
import { JSON_MEMBERS_MAX } from './protocol-limits.ts';

/** A member's value; of an array or an object its scalars, what nests deeper as its mark. */
export type JsonMember = JsonScalar | readonly JsonScalar[] | ReadonlyMap<string, JsonScalar>;

const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

/**
 * The members of the object that a body is. Throws INVALID_ARG for a syntax error (an empty body is
 * one), a body that is no object, a name given twice, and more members or elements than
 * JSON_MEMBERS_MAX.
 */
export function readMembers(document: Uint8Array, json_depth_max: number): ReadonlyMap<string, JsonMember> {
  const cursor = jsonCursor(document);
  if (peek(cursor) !== OPEN_OBJECT) {
    skipValue(cursor, json_depth_max);
    expectEnd(cursor);
    throw new NereidError('INVALID_ARG', 'the request body must be a JSON object', { field: 'body' });
  }
  const members = readObject(cursor, () => readMember(cursor, json_depth_max));
  expectEnd(cursor);
  return members;
}

function readMember(cursor: JsonCursor, json_depth_max: number): JsonMember {
  switch (peek(cursor)) {
    case OPEN_ARRAY:
      return readArray(cursor, json_depth_max);
    case OPEN_OBJECT:
      return readObject(cursor, () => readScalar(cursor, json_depth_max));
    default:
      return readScalar(cursor, json_depth_max);
  }
}

function readObject<T>(cursor: JsonCursor, readValue: () => T): ReadonlyMap<string, T> {
  const members = new Map<string, T>();
  for (let key = firstKey(cursor); key !== undefined; key = nextKey(cursor)) {
    if (members.has(key)) throw syntaxError(`Object member '${key}' is given twice.`, cursor.position);
    if (members.size === JSON_MEMBERS_MAX) throw tooMany('members in one object', cursor);
    members.set(key, readValue());
  }
  return members;
}

function readArray(cursor: JsonCursor, json_depth_max: number): readonly JsonScalar[] {
  const elements: JsonScalar[] = [];
  for (let more = firstElement(cursor); more; more = nextElement(cursor)) {
    if (elements.length === JSON_MEMBERS_MAX) throw tooMany('elements in one array', cursor);
    elements.push(readScalar(cursor, json_depth_max));
  }
  return elements;
}

function tooMany(what: string, cursor: JsonCursor): NereidError {
  return syntaxError(`More than ${JSON_MEMBERS_MAX} ${what}.`, cursor.position);
}

/** True for a member that is an array, so that its elements can be read. */
export function isJsonArray(value: JsonMember | undefined): value is readonly JsonScalar[] {
  return Array.isArray(value);
}
