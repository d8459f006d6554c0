/** Where the texts of flags come from. Each source gives, per flag name as written, its texts in order. */
import { thrownText } from '@nereid/protocol';
import { parseDocument } from 'yaml';
import { environmentName, type Flag } from './flag-table.ts';
import { LIMITS } from './limits.ts';

export type FlagTexts = ReadonlyMap<string, readonly string[]>;

export type SourceResult =
  | { readonly ok: true; readonly texts: FlagTexts }
  | { readonly ok: false; readonly error: string };

/** Finds a flag by any of its names. */
export type FlagLookup = (name: string) => Flag | undefined;

const BOOLEAN_TEXT = /^(?:true|false|1|0)$/i;

function append(texts: Map<string, string[]>, name: string, text: string): void {
  const list = texts.get(name);
  if (list === undefined) texts.set(name, [text]);
  else list.push(text);
}

/** `--flag=value`, `--flag value`, and a boolean `--flag` alone for true. */
export function argumentTexts(
  argv: readonly string[],
  lookup: FlagLookup,
  unknown: (name: string) => string,
): SourceResult {
  const texts = new Map<string, string[]>();
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (!argument.startsWith('--') || argument === '--') {
      return { ok: false, error: `unexpected argument '${argument}': every option begins with --` };
    }
    const equals = argument.indexOf('=');
    const name = argument.slice(2, equals < 0 ? undefined : equals);
    const flag = lookup(name);
    if (flag === undefined) return { ok: false, error: unknown(name) };
    const next = argv[at + 1];
    if (equals >= 0) {
      append(texts, name, argument.slice(equals + 1));
    } else if (flag.kind === 'boolean') {
      const given = next !== undefined && BOOLEAN_TEXT.test(next);
      if (given) at++;
      append(texts, name, given ? next : 'true');
    } else if (next === undefined || next.startsWith('--')) {
      return { ok: false, error: `--${name} needs a value: ${flag.allowed}` };
    } else {
      at++;
      append(texts, name, next);
    }
  }
  return { ok: true, texts };
}

/**
 * `NEREID_<FLAG>`. An empty variable is one that is not set. The values of a repeatable flag are
 * separated by `;`, since paths and settings hold commas.
 */
export function environmentTexts(
  env: Readonly<Record<string, string | undefined>>,
  names: Iterable<string>,
  lookup: FlagLookup,
): FlagTexts {
  const texts = new Map<string, readonly string[]>();
  for (const name of names) {
    const text = env[environmentName(name)];
    if (text === undefined || text === '') continue;
    const repeatable = lookup(name)?.repeatable === true;
    texts.set(name, repeatable ? text.split(';').filter((part) => part !== '') : [text]);
  }
  return texts;
}

/**
 * The keys of a YAML (or JSON) file. Every scalar is read as the text that stands there, so that
 * the same rules hold as on the command line.
 */
export function fileTexts(
  source: string,
  file: string,
  lookup: FlagLookup,
  unknown: (name: string) => string,
): SourceResult {
  const failed = (text: string): SourceResult => ({ ok: false, error: `--config ${file}: ${text}` });
  if (Buffer.byteLength(source) > LIMITS.options_file_bytes_max) {
    return failed(`longer than ${LIMITS.options_file_bytes_max} bytes`);
  }
  const document = parseDocument(source, { schema: 'failsafe', prettyErrors: true });
  const problem = document.errors[0];
  if (problem !== undefined) return failed(problem.message.split('\n')[0] ?? problem.code);
  let content: unknown;
  try {
    content = document.toJS();
  } catch (failure) {
    // An alias without its anchor is found only here.
    return failed(thrownText(failure));
  }
  if (content === null || content === '') return { ok: true, texts: new Map() };
  if (typeof content !== 'object' || Array.isArray(content)) {
    return failed('must be a mapping of flag names to values, e.g. `http-port: 8000`');
  }
  const texts = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(content)) {
    const flag = lookup(name);
    if (flag === undefined) return failed(unknown(name));
    if (flag.name === 'config') return failed('config names another file: options come from one file');
    if (typeof value === 'string') {
      texts.set(name, [value]);
    } else if (
      Array.isArray(value) &&
      flag.repeatable &&
      value.every((item): item is string => typeof item === 'string')
    ) {
      texts.set(name, value);
    } else {
      return failed(
        `${name} must be ${flag.repeatable ? 'a value or a list of values' : 'a single value'}: ${flag.allowed}`,
      );
    }
  }
  return { ok: true, texts };
}
