/** A token of protobuf text format, good enough to say where a mistake is. */
export interface TextToken {
  readonly text: string;
  readonly offset: number;
}

const TOKEN = /(?<skip>\s+|#[^\n]*)|"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?|[A-Za-z0-9_.+-]+|[\s\S]/gy;

/** Splits text into tokens; white space and comments are left out. A number and its sign stay together. */
export function textTokens(text: string): TextToken[] {
  const tokens: TextToken[] = [];
  for (const match of text.matchAll(TOKEN)) {
    if (match.groups?.skip === undefined) tokens.push({ text: match[0], offset: match.index });
  }
  return tokens;
}

/** `line:column` of an offset, both from 1. */
export function textPosition(text: string, offset: number): string {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  let line = 1;
  for (let at = before.indexOf('\n'); at !== -1; at = before.indexOf('\n', at + 1)) line++;
  return `${line}:${offset - lineStart + 1}`;
}

/** The name before the nearest colon or opening bracket at or before token `index`: the field being read. */
export function fieldBefore(tokens: readonly TextToken[], index: number): string | undefined {
  for (let i = index; i > 0; i--) {
    const name = tokens[i - 1]?.text ?? '';
    if (tokens[i]?.text === ':' && /^[A-Za-z_]/.test(name)) return name;
    if (tokens[i]?.text === '{' || tokens[i]?.text === '}') return undefined;
  }
  return undefined;
}

/** The innermost bracket that is never closed. */
export function unclosedBracket(tokens: readonly TextToken[]): TextToken | undefined {
  const open: TextToken[] = [];
  for (const token of tokens) {
    if (token.text === '{' || token.text === '[' || token.text === '<') open.push(token);
    if (token.text === '}' || token.text === ']' || token.text === '>') open.pop();
  }
  return open.at(-1);
}
