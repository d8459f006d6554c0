import { textPosition } from './text-tokens.ts';

/** A JSON value with the offset at which it stands; numbers keep their digits. */
export type JsonNode = { readonly offset: number } & (
  | { readonly kind: 'object'; readonly members: readonly JsonMember[] }
  | { readonly kind: 'array'; readonly items: readonly JsonNode[] }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'number'; readonly digits: string }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'null' }
);

export interface JsonMember {
  readonly name: string;
  /** Of the name. */
  readonly offset: number;
  readonly value: JsonNode;
}

/** Arrays and objects within each other. */
const DEPTH_MAX = 100;
const TOKEN =
  /[\t\n\r ]*(?:("[^"\\]*(?:\\[\s\S][^"\\]*)*"?)|(-?[0-9][0-9.eE+-]*)|([A-Za-z_]+)|([[\]{},:])|($)|([\s\S]))/y;
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

interface Token {
  readonly kind: 'string' | 'number' | 'word' | 'mark' | 'end' | 'other';
  readonly text: string;
  readonly offset: number;
}

interface Reader {
  readonly text: string;
  next: Token;
}

/** Reads a JSON text. Throws a SyntaxError whose message begins with `line:column: `. */
export function readJsonTree(text: string): JsonNode {
  const reader: Reader = { text, next: tokenAt(text, 0) };
  const root = readValue(reader, 0);
  if (reader.next.kind !== 'end') wrong(reader, `expected the end, got ${shown(reader.next)}`);
  return root;
}

function tokenAt(text: string, from: number): Token {
  TOKEN.lastIndex = from;
  const match = TOKEN.exec(text);
  const kinds = ['string', 'number', 'word', 'mark', 'end', 'other'] as const;
  const group = kinds.findIndex((_, index) => match?.[index + 1] !== undefined);
  const found = match?.[group + 1] ?? '';
  return { kind: kinds[group] ?? 'end', text: found, offset: TOKEN.lastIndex - found.length };
}

function take(reader: Reader): Token {
  const token = reader.next;
  reader.next = tokenAt(reader.text, token.offset + token.text.length);
  return token;
}

function wrong({ text, next }: Reader, why: string, offset = next.offset): never {
  throw new SyntaxError(`${textPosition(text, offset)}: ${why}`);
}

function shown({ kind, text }: Token): string {
  if (kind === 'end') return 'the end of the text';
  return text.startsWith('"') ? text.slice(0, 40) : `"${text.slice(0, 40)}"`;
}

function readValue(reader: Reader, depth: number): JsonNode {
  const { kind, text, offset } = reader.next;
  if (kind === 'string') return { kind, value: readString(reader), offset };
  if (kind === 'number') {
    if (!NUMBER.test(text)) wrong(reader, `${shown(reader.next)} is no JSON number`);
    take(reader);
    return { kind, digits: text, offset };
  }
  if (text === 'true' || text === 'false' || text === 'null') {
    take(reader);
    return text === 'null' ? { kind: 'null', offset } : { kind: 'boolean', value: text === 'true', offset };
  }
  if (text !== '{' && text !== '[') return wrong(reader, `expected a value, got ${shown(reader.next)}`);
  if (depth === DEPTH_MAX) wrong(reader, `more than ${DEPTH_MAX} arrays and objects within each other`);
  take(reader);
  if (text === '[') return { kind: 'array', items: listed(reader, ']', () => readValue(reader, depth + 1)), offset };
  const members = listed(reader, '}', () => readMember(reader, depth + 1));
  return { kind: 'object', members, offset };
}

function readString(reader: Reader): string {
  const { text, offset } = reader.next;
  try {
    const value: unknown = JSON.parse(text);
    take(reader);
    return String(value);
  } catch {
    return wrong(reader, 'a string that has no end, a line break or a wrong escape', offset);
  }
}

function readMember(reader: Reader, depth: number): JsonMember {
  const { kind, offset } = reader.next;
  if (kind !== 'string') wrong(reader, `expected a name in double quotes, got ${shown(reader.next)}`);
  const name = readString(reader);
  if (reader.next.text !== ':') wrong(reader, `expected ":" after "${name}", got ${shown(reader.next)}`);
  take(reader);
  return { name, offset, value: readValue(reader, depth) };
}

/** What stands between the brackets, the first of which is taken. */
function listed<Item>(reader: Reader, close: string, item: () => Item): Item[] {
  const items: Item[] = [];
  if (reader.next.text === close) {
    take(reader);
    return items;
  }
  for (;;) {
    items.push(item());
    const { text } = reader.next;
    if (text !== ',' && text !== close) wrong(reader, `expected "," or "${close}", got ${shown(reader.next)}`);
    take(reader);
    if (text === close) return items;
  }
}
