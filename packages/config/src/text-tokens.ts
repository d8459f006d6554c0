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

/** The field whose value, or element of a list value, token `index` is; undefined where it is neither. */
export function fieldBefore(tokens: readonly TextToken[], index: number): string | undefined {
  let i = index - 1;
  if (tokens[i]?.text === ',' || tokens[i]?.text === '[') {
    while (i >= 0 && !['[', ']', '{', '}', ':'].includes(tokens[i]?.text ?? '')) i--;
    if (tokens[i]?.text !== '[') return undefined;
    i--;
  }
  return tokens[i]?.text === ':' ? tokens[i - 1]?.text : undefined;
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
