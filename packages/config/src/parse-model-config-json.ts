import { type DescField, type DescMessage, fromJson, type JsonValue, ScalarType } from '@bufbuild/protobuf';
import { NereidError } from '@nereid/protocol';
import { type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';
import { type JsonMember, type JsonNode, readJsonTree } from './json-tree.ts';
import { LIMITS } from './limits.ts';
import { suggestion } from './name-suggestion.ts';
import { textPosition } from './text-tokens.ts';

/**
 * Reads a ModelConfig from JSON, as the load API's `config` parameter has it: protobuf's JSON form with
 * snake_case or camelCase names, enum names in any case, 64-bit integers as numbers or texts. `source` names it in errors.
 * Throws INVALID_ARG with `<source>:<line>:<column>: <path>: …` for a syntax error, an unknown field or enum value, a
 * member given twice, two of a oneof, a value of another type or out of range, or a text over LIMITS.config_bytes_max.
 */
export function parseModelConfigJson(text: string, source: string): ModelConfig {
  if (text.length > LIMITS.config_bytes_max) {
    const size = `${text.length} characters, more than ${LIMITS.config_bytes_max}`;
    throw new NereidError('INVALID_ARG', `${source}: the model configuration has ${size}`);
  }
  const refuse: Refuse = (offset, path, why) => {
    const where = path === '' ? '' : `${path}: `;
    const field = path === '' ? {} : { field: path };
    throw new NereidError('INVALID_ARG', `${source}:${textPosition(text, offset)}: ${where}${why}`, field);
  };
  let root: JsonNode;
  try {
    root = readJsonTree(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new NereidError('INVALID_ARG', `${source}:${error.message}`, { cause: error });
  }
  return fromJson(ModelConfigSchema, messageJson(root, ModelConfigSchema, '', refuse));
}

type Refuse = (offset: number, path: string, why: string) => never;

const KINDS: Readonly<Record<JsonNode['kind'], string>> = {
  object: 'an object',
  array: 'an array',
  string: 'a text',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
};

/** The same in a form that protobuf's own reader takes, checked. */
function messageJson(node: JsonNode, message: DescMessage, path: string, refuse: Refuse): JsonValue {
  if (node.kind !== 'object') return refuse(node.offset, path, `expected an object, got ${KINDS[node.kind]}`);
  const given = new Map<string, string>();
  const members: [string, JsonValue][] = [];
  for (const member of node.members) {
    const field = memberField(member, message, path, refuse);
    const inner = path === '' ? field.name : `${path}.${field.name}`;
    if (given.has(field.name)) refuse(member.offset, inner, 'given twice');
    // Protobuf's JSON has null for a field that is left out.
    if (member.value.kind === 'null') continue;
    const choice = field.oneof?.name;
    const other = choice === undefined ? undefined : given.get(choice);
    if (other !== undefined) refuse(member.offset, inner, `"${other}" is given too, only one of them can be`);
    given.set(field.name, field.name);
    if (choice !== undefined) given.set(choice, field.name);
    members.push([field.name, fieldJson(member.value, field, inner, refuse)]);
  }
  return Object.fromEntries(members);
}

function memberField(member: JsonMember, message: DescMessage, path: string, refuse: Refuse): DescField {
  const { name, offset } = member;
  const field = message.fields.find((one) => one.name === name || one.jsonName === name);
  if (field !== undefined) return field;
  const known = message.fields.map((one) => one.name);
  return refuse(offset, path, `unknown field "${name}" in ${message.name}; ${suggestion(name, known)}`);
}

function fieldJson(node: JsonNode, field: DescField, path: string, refuse: Refuse): JsonValue {
  if (field.fieldKind === 'list') {
    if (node.kind !== 'array') return refuse(node.offset, path, `expected an array, got ${KINDS[node.kind]}`);
    return node.items.map((item, index) => valueJson(item, field, `${path}[${index}]`, refuse));
  }
  if (field.fieldKind === 'map') {
    if (node.kind !== 'object') return refuse(node.offset, path, `expected an object, got ${KINDS[node.kind]}`);
    const given = new Set<string>();
    const entries = node.members.map(({ name, offset, value }): [string, JsonValue] => {
      const inner = `${path}[${JSON.stringify(name)}]`;
      if (given.has(name)) refuse(offset, inner, 'given twice');
      given.add(name);
      // It would be taken for the prototype of what holds the entries.
      if (name === '__proto__') refuse(offset, inner, 'this name cannot be used');
      if (field.mapKey !== ScalarType.STRING)
        integerJson({ kind: 'string', value: name, offset }, field.mapKey, inner, refuse);
      return [name, valueJson(value, field, inner, refuse)];
    });
    return Object.fromEntries(entries);
  }
  return valueJson(node, field, path, refuse);
}

function valueJson(node: JsonNode, field: DescField, path: string, refuse: Refuse): JsonValue {
  if (field.message !== undefined) return messageJson(node, field.message, path, refuse);
  if (field.enum !== undefined) return enumJson(node, field, path, refuse);
  switch (field.scalar) {
    case ScalarType.STRING:
      return node.kind === 'string' ? node.value : refuse(node.offset, path, `expected a text, got ${shown(node)}`);
    case ScalarType.BOOL:
      return node.kind === 'boolean'
        ? node.value
        : refuse(node.offset, path, `expected true or false, got ${shown(node)}`);
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE:
      return floatJson(node, field.scalar, path, refuse);
    default:
      return integerJson(node, field.scalar, path, refuse);
  }
}

function shown(node: JsonNode): string {
  if (node.kind === 'number') return node.digits;
  if (node.kind === 'string') return JSON.stringify(node.value.slice(0, 40));
  return node.kind === 'boolean' ? String(node.value) : KINDS[node.kind];
}

function enumJson(node: JsonNode, field: DescField, path: string, refuse: Refuse): JsonValue {
  const values = field.enum?.values ?? [];
  const names = values.map((one) => one.name);
  if (node.kind === 'string') {
    const name = node.value.toUpperCase().replaceAll('-', '_');
    if (names.includes(name)) return name;
    return refuse(node.offset, path, `unknown value ${shown(node)}; ${suggestion(name, names)}`);
  }
  const found = node.kind === 'number' ? values.find((one) => String(one.number) === node.digits) : undefined;
  return found?.name ?? refuse(node.offset, path, `expected one of ${names.join(', ')}, got ${shown(node)}`);
}

const INTEGERS = new Map<ScalarType | undefined, readonly [bigint, bigint]>([
  [ScalarType.INT32, [-(2n ** 31n), 2n ** 31n - 1n]],
  [ScalarType.UINT32, [0n, 2n ** 32n - 1n]],
  [ScalarType.INT64, [-(2n ** 63n), 2n ** 63n - 1n]],
  [ScalarType.UINT64, [0n, 2n ** 64n - 1n]],
]);
/** Longer ones are out of every range; BigInt takes its time over them. */
const DIGITS_MAX = 24;

/** As protobuf reads it: also `4.0` and `"4"`. */
function integerJson(node: JsonNode, scalar: ScalarType | undefined, path: string, refuse: Refuse): JsonValue {
  const text = node.kind === 'number' ? node.digits : node.kind === 'string' ? node.value : '';
  const isLiteral = /^-?[0-9]+$/.test(text);
  const number = Number(text);
  if (!isLiteral && (text.trim() === '' || !Number.isSafeInteger(number))) {
    return refuse(node.offset, path, `expected an integer, got ${shown(node)}`);
  }
  const [least, most] = INTEGERS.get(scalar) ?? [0n, 0n];
  const value = isLiteral && text.length <= DIGITS_MAX ? BigInt(text) : isLiteral ? undefined : BigInt(number);
  if (value === undefined || value < least || value > most) {
    return refuse(node.offset, path, `expected an integer from ${least} to ${most}, got ${shown(node)}`);
  }
  return value.toString();
}

const FLOAT_MAX = 3.4028234663852886e38;

function floatJson(node: JsonNode, scalar: ScalarType, path: string, refuse: Refuse): JsonValue {
  const text = node.kind === 'number' ? node.digits : node.kind === 'string' ? node.value : '';
  if (node.kind === 'string' && ['NaN', 'Infinity', '-Infinity'].includes(text)) return text;
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && (scalar === ScalarType.DOUBLE || Math.abs(value) <= FLOAT_MAX)) {
    return scalar === ScalarType.FLOAT ? Math.fround(value) : value;
  }
  return refuse(node.offset, path, `expected a number, got ${shown(node)}`);
}
