/** JSON with what JavaScript's own has not: 64-bit integers, and NaN and Infinity as servers write them. */
import { NereidError } from './error.ts';

/** A parameter's value: text, true or false, a bigint or a whole number (an integer), or another number (a double). */
export type ParameterValue = string | boolean | bigint | number;
export type Parameters = Readonly<Record<string, ParameterValue>>;

export type JsonObject = Readonly<Record<string, unknown>>;

/** Strings, which stay as they are, and outside of them the literals that JSON.parse would get wrong or refuse. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])|NaN|-?Infinity/g;
/** Whether there may be such literals at all. */
const ODD = /\d{16}|NaN|Infinity/;
/** Stands for a literal in place of a text, which may be anything. */
const LITERAL = '\u0000nereid:';

/**
 * Parses JSON text: an integer beyond 2^53 becomes a bigint, NaN and Infinity numbers.
 * Throws SyntaxError as JSON.parse does.
 */
export function parseJson(text: string): unknown {
  if (!ODD.test(text)) return JSON.parse(text);
  const marked = text.replaceAll(TOKENS, (token) => (token.startsWith('"') ? token : `"\\u0000nereid:${token}"`));
  return JSON.parse(marked, (_name, value: unknown) => {
    return typeof value === 'string' && value.startsWith(LITERAL) ? literal(value.slice(LITERAL.length)) : value;
  });
}

function literal(text: string): bigint | number {
  if (!/\d/.test(text)) return Number(text);
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

/** JSON text in which a bigint is an integer. */
export function jsonText(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`).join(',')}}`;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Throws INTERNAL where what the server sent is no JSON object. */
export function objectOf(value: unknown, what: string): JsonObject {
  if (isObject(value)) return value;
  throw new NereidError('INTERNAL', `the server's ${what} is no JSON object`);
}
