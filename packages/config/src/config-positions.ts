import type { DescField, DescMessage } from '@bufbuild/protobuf';
import { ModelConfigSchema } from './gen/model_config_pb.ts';
import { type JsonNode, readJsonTree } from './json-tree.ts';
import { type TextToken, textPosition, textTokens } from './text-tokens.ts';

/** The text that a config was read from. */
export interface ConfigText {
  /** How errors name it: a path, or what was given in place of a file. */
  readonly source: string;
  readonly text: string;
  readonly form: 'pbtxt' | 'json';
}

/**
 * `line:column` of a field by its path (`input[0].dims`), else of the innermost part of the path that is there, as
 * where a field is missing; undefined where no part is, as for what was completed. Takes a text that was read
 * without an error.
 */
export function configPosition({ text: whole, form }: ConfigText, path: string): string | undefined {
  const text = whole.startsWith('\uFEFF') ? whole.slice(1) : whole;
  const offsets = form === 'json' ? jsonOffsets(text) : pbtxtOffsets(text);
  for (let part = path; part !== ''; part = part.replace(/(?:^|\.)[^.[\]"]*$|\[(?:\d+|"(?:[^"\\]|\\.)*")\]$/, '')) {
    const offset = offsets.get(part);
    if (offset !== undefined) return textPosition(text, offset);
  }
  return undefined;
}

type Offsets = Map<string, number>;

function inner(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

/** The first mention counts: a repeated field may be named many times. */
function note(offsets: Offsets, path: string, offset: number): void {
  if (!offsets.has(path)) offsets.set(path, offset);
}

function pbtxtOffsets(text: string): Offsets {
  const walk: Walk = { tokens: textTokens(text), at: 0, offsets: new Map(), counts: new Map() };
  walkFields(walk, ModelConfigSchema, '');
  return walk.offsets;
}

interface Walk {
  readonly tokens: readonly TextToken[];
  at: number;
  readonly offsets: Offsets;
  /** Elements of each repeated field so far. */
  readonly counts: Map<string, number>;
}

function next({ tokens, at }: Walk): string {
  return tokens[at]?.text ?? '';
}

function isOpen(text: string): boolean {
  return text === '{' || text === '<';
}

function walkFields(walk: Walk, message: DescMessage, path: string): void {
  while (walk.at < walk.tokens.length && !['}', '>'].includes(next(walk))) {
    const offset = walk.tokens[walk.at]?.offset ?? 0;
    const field = message.fields.find((one) => one.name === next(walk));
    walk.at++;
    if (next(walk) === ':') walk.at++;
    if (field === undefined) skipValue(walk);
    else walkField(walk, field, path, offset);
    if (next(walk) === ',' || next(walk) === ';') walk.at++;
  }
}

function walkField(walk: Walk, field: DescField, path: string, offset: number): void {
  const at = inner(path, field.name);
  const value = isOpen(next(walk)) ? offset : (walk.tokens[walk.at]?.offset ?? offset);
  if (field.fieldKind === 'list' || field.fieldKind === 'map') note(walk.offsets, at, offset);
  if (next(walk) !== '[') {
    walkValue(walk, field, at, value);
    return;
  }
  walk.at++;
  while (walk.at < walk.tokens.length && next(walk) !== ']') {
    if (next(walk) === ',') walk.at++;
    else walkValue(walk, field, at, walk.tokens[walk.at]?.offset ?? offset);
  }
  walk.at++;
}

function walkValue(walk: Walk, field: DescField, at: string, offset: number): void {
  let path = at;
  if (field.fieldKind === 'map') path = `${at}[${JSON.stringify(entryKey(walk))}]`;
  if (field.fieldKind === 'list') {
    const index = walk.counts.get(at) ?? 0;
    walk.counts.set(at, index + 1);
    path = `${at}[${index}]`;
  }
  note(walk.offsets, path, offset);
  if (field.message === undefined || !isOpen(next(walk))) {
    skipValue(walk);
    return;
  }
  walk.at++;
  // An entry's fields are `key` and `value`, of which the second is the path's own.
  if (field.fieldKind === 'map') walkEntry(walk, field.message, path);
  else walkFields(walk, field.message, path);
  walk.at++;
}

function walkEntry(walk: Walk, message: DescMessage, path: string): void {
  while (walk.at < walk.tokens.length && !['}', '>'].includes(next(walk))) {
    const isValue = next(walk) === 'value';
    walk.at++;
    if (next(walk) === ':') walk.at++;
    if (isValue && isOpen(next(walk))) {
      walk.at++;
      walkFields(walk, message, path);
      walk.at++;
    } else {
      skipValue(walk);
    }
    if (next(walk) === ',' || next(walk) === ';') walk.at++;
  }
}

/** The key of the map's entry at which the walk is, in whatever order it stands. */
function entryKey(walk: Walk): string {
  let depth = 0;
  for (let at = walk.at; at < walk.tokens.length; at++) {
    const text = walk.tokens[at]?.text ?? '';
    if (isOpen(text) || text === '[') depth++;
    if (['}', '>', ']'].includes(text) && --depth === 0) return '';
    if (depth !== 1 || text !== 'key' || walk.tokens[at + 1]?.text !== ':') continue;
    const key = walk.tokens[at + 2]?.text ?? '';
    return /^["']/.test(key) ? key.slice(1, -1) : key;
  }
  return '';
}

/** A message, a list, strings that stand beside each other, or one token with its sign. */
function skipValue(walk: Walk): void {
  if (isOpen(next(walk)) || next(walk) === '[') {
    let depth = 0;
    do {
      const text = next(walk);
      if (isOpen(text) || text === '[') depth++;
      if (['}', '>', ']'].includes(text)) depth--;
      walk.at++;
    } while (depth > 0 && walk.at < walk.tokens.length);
    return;
  }
  const isText = /^["']/.test(next(walk));
  if (next(walk) === '-') walk.at++;
  walk.at++;
  while (isText && /^["']/.test(next(walk))) walk.at++;
}

function jsonOffsets(text: string): Offsets {
  const offsets: Offsets = new Map();
  walkJson(readJsonTree(text), ModelConfigSchema, '', offsets);
  return offsets;
}

function walkJson(node: JsonNode, message: DescMessage, path: string, offsets: Offsets): void {
  if (node.kind !== 'object') return;
  for (const { name, offset, value } of node.members) {
    const field = message.fields.find((one) => one.name === name || one.jsonName === name);
    if (field === undefined) continue;
    const at = inner(path, field.name);
    const isScalar = value.kind !== 'object' && value.kind !== 'array';
    note(offsets, at, isScalar ? value.offset : offset);
    for (const [key, item] of parts(value)) {
      note(offsets, `${at}${key}`, item.offset);
      if (field.message !== undefined) walkJson(item, field.message, `${at}${key}`, offsets);
    }
    if (field.fieldKind === 'message') walkJson(value, field.message, at, offsets);
  }
}

/** Elements of a list and entries of a map, by what their paths end with. */
function parts(node: JsonNode): [string, JsonNode][] {
  if (node.kind === 'array') return node.items.map((item, index) => [`[${index}]`, item]);
  if (node.kind !== 'object') return [];
  return node.members.map(({ name, value }) => [`[${JSON.stringify(name)}]`, value]);
}
